"""`generic-trainer init`: a first training module for a dataset, with configuration and test.

raw = read_data("trips.csv")                       # reading.py: the rows as ExampleGen will read them
columns = look_at(raw)                             # looking.py: statistics, by TFDV
plan = plan_for(raw, columns, label="tips")        # planning.py: label, task, what becomes of each column
project = project_for("taxi", plan, "trips.csv")                # project.py: names and places
write_project("taxi", files_of(project, plan))     # writing.py: the files, by what is in templates/
"""
