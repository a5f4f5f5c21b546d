"""The report of a run: one self-contained HTML file that works offline.

    write_report(model_run_dir)                                    # `writing`: report.html beside run.json
    html_of(comparison([(folder, record), (other, its_record)]))   # `page`, `comparison`

`pipelines/reporting/sections.py` adds sections from ML Metadata.
"""
