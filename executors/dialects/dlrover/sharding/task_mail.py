"""Message passing between the tasks of a cluster, through queues on the first parameter server.

Every task of a TensorFlow cluster can reach the parameter servers, regardless of the platform and of firewalls between
other tasks. Each task has a FIFO queue there as its mailbox, so no further addresses or ports are needed.

Usage:

    mail = Mail(estimator.config.master, task)
    mail.send("chief 0", {"ask": "take"})      # from "worker 0"
    message = mail.receive()                   # blocks until a message arrives
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypedDict

import tensorflow.compat.v1 as tf

from ....distributed.tf_config import CHIEF, WORKER, ClusterTask

_BOX = "generic_trainer_mail_to_{}"
_MAX_MESSAGES = 10_000  # maximum number of messages in a mailbox


class Answer(TypedDict, total=False):
    """The chief's answer to a worker; its keys depend on the request."""

    error: str
    over: bool
    shard: tuple[int, int, int] | None
    is_final: bool


# A worker sends `from`, `ask` and the request's arguments; the chief sends an `answer` or an `order`. `gone` is never
# sent: a worker puts it into its own queue as the reason for a missing answer. The functional form is needed because
# `from` is a keyword.
Message = TypedDict(
    "Message",
    {
        "from": str,
        "id": str,
        "number": int | str,
        "trained": int,
        "ask": str,
        "data": tuple[str, int],
        "shards": list[tuple[int, int, int]],
        "pause": int,
        "answer": Answer,
        "order": str,
        "gone": str,
    },
    total=False,
)


class Mail:
    """The mailboxes of a cluster's chief and workers; thread-safe.

    Args:
      target: Target of this task's own server, as in `RunConfig.master`.
      task: This task.
    """

    def __init__(self, target: str, task: ClusterTask) -> None:
        names = [f"{role} {index}" for role in (CHIEF, WORKER) for index in range(len(task.jobs.get(role, ())))]
        graph = tf.Graph()
        with graph.as_default(), tf.device("/job:ps/task:0/device:CPU:0"):
            boxes = {
                name: tf.FIFOQueue(_MAX_MESSAGES, [tf.string], [[]], shared_name=_BOX.format(name.replace(" ", "_")))
                for name in names
            }
            self._text = tf.placeholder(tf.string, [])
            self._sending = {name: box.enqueue(self._text) for name, box in boxes.items()}
            self._receiving = boxes[str(task)].dequeue()
        # Without device filters, a session blocks until all tasks of the cluster are running.
        filters = ["/job:ps", f"/job:{task.type}/task:{task.index}"]
        self._session = tf.Session(target, graph, tf.ConfigProto(device_filters=filters))

    def send(self, name: str, message: Mapping[str, object]) -> None:
        """Sends a message of JSON values to a task, such as "worker 1"."""
        self._session.run(self._sending[name], {self._text: json.dumps(message)})

    def receive(self) -> Message:
        """Returns the next message to this task; blocks until there is one.

        Raises:
          tf.errors.OpError: If `close` was called, or the parameter server is not reachable.
        """
        message: Message = json.loads(self._session.run(self._receiving))
        return message

    def close(self) -> None:
        """Closes the session; a blocked `receive` raises."""
        self._session.close()
