"""Short messages between the tasks of a cluster, by way of its first parameter server.

Every task of TensorFlow's cluster reaches the parameter servers, whoever started it and whatever lies between the
others. A queue on the first of these is a task's letter box: it needs no address or port of its own.

Usage:

    mail = Mail(estimator.config.master, task)
    mail.send("chief 0", {"ask": "take"})      # from "worker 0"
    message = mail.receive()                   # waits
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypedDict

import tensorflow.compat.v1 as tf

from ..distributed.tf_config import CHIEF, WORKER, ClusterTask

_BOX = "generic_trainer_mail_to_{}"
_ROOM = 10_000  # messages in a box


class Answer(TypedDict, total=False):
    """The chief's answer to a worker; which keys it has depends on what was asked."""

    error: str
    over: bool
    shard: tuple[int, int, int] | None
    is_final: bool


# A worker sends `from`, `ask` and what that needs, the chief an `answer` or an `order`. `gone` is never sent: it says
# in a worker's own queue why no answer comes. The functional form is for `from`, a keyword.
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
        "rest": int,
        "answer": Answer,
        "order": str,
        "gone": str,
    },
    total=False,
)


class Mail:
    """The letter boxes of a cluster's chief and workers; threads may share one.

    Args:
      target: Of this task's own server, as `RunConfig.master` has it.
      task: Who this is.
    """

    def __init__(self, target: str, task: ClusterTask) -> None:
        names = [f"{role} {index}" for role in (CHIEF, WORKER) for index in range(len(task.jobs.get(role, ())))]
        graph = tf.Graph()
        with graph.as_default(), tf.device("/job:ps/task:0/device:CPU:0"):
            boxes = {
                name: tf.FIFOQueue(_ROOM, [tf.string], [[]], shared_name=_BOX.format(name.replace(" ", "_")))
                for name in names
            }
            self._text = tf.placeholder(tf.string, [])
            self._sending = {name: box.enqueue(self._text) for name, box in boxes.items()}
            self._receiving = boxes[str(task)].dequeue()
        # Without filters a session waits for all tasks of the cluster to be there.
        filters = ["/job:ps", f"/job:{task.type}/task:{task.index}"]
        self._session = tf.Session(target, graph, tf.ConfigProto(device_filters=filters))

    def send(self, name: str, message: Mapping[str, object]) -> None:
        """Puts a message of JSON values into a task's box, such as that of "worker 1"."""
        self._session.run(self._sending[name], {self._text: json.dumps(message)})

    def receive(self) -> Message:
        """Waits for a message to this task, and returns it.

        Raises:
          tf.errors.OpError: When the mail was closed, or the parameter server is gone.
        """
        message: Message = json.loads(self._session.run(self._receiving))
        return message

    def close(self) -> None:
        """Ends what waits here."""
        self._session.close()
