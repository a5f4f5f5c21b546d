"""The report of a run: one HTML file with all that is known of it, which works without a network.

    write_report(model_run_dir)                                    # `writing`: report.html beside run.json
    html_of(comparison([(folder, record), (other, its_record)]))   # `page`, `comparison`

What comes of ML Metadata is added by `pipelines/reporting/sections.py`.
"""
