"""A first training module for somebody's data, with all that belongs to it: `generic-trainer init`.

raw = read_data("taxi/data.csv")                       # reading.py: the rows as ExampleGen will read them
columns = look_at(raw)                                 # looking.py: statistics, by TFDV
plan = plan_for(raw, columns, Wishes(label="tips"))    # planning.py: label, task, what becomes of each column
write_project("taxi", files_of(plan, "taxi"))          # writing.py: the files, by the templates in templates/
"""
