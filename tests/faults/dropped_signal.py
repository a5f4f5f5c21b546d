"""Runs a pipeline that gets a signal in one of its steps, in a weakref callback: Python drops the handler's exception.

python dropped_signal.py Evaluator 15 run --data data --module-file module.py
"""

import logging
import os
import pathlib
import sys
import weakref

from generic_trainer.cli.main import main

step, number = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]


class Thing:
    pass


def send(reference):
    pathlib.Path(os.environ["FAULTS"], "sent").touch()
    os.kill(os.getpid(), number)
    for _ in range(1000):  # the handler runs here
        pass


class Factory:
    """Makes log records; sends the signal when TFX's launcher logs that it runs the step's executor."""

    def __init__(self):
        self.is_due, self.references = False, []

    def __call__(self, *arguments, **options):
        record = logging.LogRecord(*arguments, **options)
        message = record.getMessage()
        if message.endswith("is running."):
            self.is_due = message == f"node {step} is running."
        elif self.is_due and message.startswith("Going to run a new execution"):
            self.is_due = False
            thing = Thing()
            self.references.append(weakref.ref(thing, send))
            del thing
        return record


logging.setLogRecordFactory(Factory())
main()
