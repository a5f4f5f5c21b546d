"""`generic-trainer init`: generates a training module for a dataset, with configuration and test.

raw = read_data("trips.csv")                       # reading.py: the rows as ExampleGen will read them
columns = look_at(raw)                             # looking.py: column statistics, by TFDV
plan = plan_for(raw, columns, label="tips")        # planning.py: label, task and preprocessing of each column
project = project_for("taxi", plan, "trips.csv")                # project.py: names and paths
write_project("taxi", files_of(project, plan))     # writing.py: renders templates/ and writes the files
"""
