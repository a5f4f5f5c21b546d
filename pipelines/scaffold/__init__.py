"""`generic-trainer init`: generates a training module for a dataset, with configuration and test.

raw = read_data("trips.csv")                        # reading.py: the rows as ExampleGen will read them
columns = analyze_columns(raw)                      # column_statistics.py: column statistics, by TFDV
plan = make_plan(raw, columns, label="tips")        # planning.py: label, task and preprocessing of each column
project = make_project("taxi", plan, "trips.csv")   # project.py: names and paths
write_project("taxi", render_files(project, plan))  # writing.py: renders templates/ and writes the files
"""
