r"""Recreates the screenshots in docs/images: the report (light, dark, phone), a comparison, and the soak test's charts.

The pages are rendered in Chromium without network access.

    generic-trainer run --data TAXI --module-file module_files/taxi_keras.py --label big_tip \
        --slice-by trip_start_hour --pipeline-root build/images
    generic-trainer train module_files/iris_keras.py --train-files … --eval-files … --output build/a
    generic-trainer train module_files/iris_keras.py … --custom-config '{"learning_rate": 0.003}' --output build/b
    generic-trainer report build/images --output build/report.html
    generic-trainer report build/a --compare build/b --output build/comparison.html
    python benchmarks/soak.py --page build/soak.html
    python scripts/report_images.py build/report.html build/comparison.html build/soak.html
"""

from __future__ import annotations

import pathlib
import shutil
import sys

from playwright.sync_api import sync_playwright

_IMAGES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "images"
_SIZES = {"wide": {"width": 1280, "height": 1500}, "phone": {"width": 390, "height": 844}}


def main(report: str, comparison: str, soak: str) -> None:
    """Opens the HTML files and writes the screenshots."""
    _IMAGES.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, page, scheme, size in (
            ("report-light", report, "light", "wide"),
            ("report-dark", report, "dark", "wide"),
            ("report-phone", report, "light", "phone"),
            ("compare-light", comparison, "light", "wide"),
            ("soak-light", soak, "light", "wide"),
        ):
            context = browser.new_context(color_scheme=scheme, offline=True, viewport=_SIZES[size])
            shown = context.new_page()
            shown.goto(pathlib.Path(page).absolute().as_uri())
            shown.screenshot(path=_IMAGES / f"{name}.png", full_page=page == soak)
            context.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
