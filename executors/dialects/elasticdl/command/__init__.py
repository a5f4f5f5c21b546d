"""`generic-trainer elasticdl`: the commands of ElasticDL, with its flags."""
