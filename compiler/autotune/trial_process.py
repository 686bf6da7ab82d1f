"""The process in which trials run: see `trials`."""

import os
import signal
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any

from compiler.autotune.trials import IDLE, TRIAL_READY
from compiler.errors import DeviceError, FlowloomError
from compiler.support.child_process import receive, send, stdin_and_stdout

IDLE_SECONDS = 10.0
"""How long the process waits for the next subject: meanwhile it holds a context's memory."""


def run_trials() -> None:
    """Open the device and run subjects until one fails, or none has come for some time.

    Requests come by standard input: what opens the device, then each subject and, once that is
    loaded, the word to run it.
    """
    stdin, answers = stdin_and_stdout()
    requests: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_read, args=(stdin, requests), daemon=True).start()
    status = 1
    try:
        driver = requests.get()()
        send(answers, TRIAL_READY)
        while True:
            subject = requests.get(timeout=IDLE_SECONDS)
            with subject.loaded(driver) as run:
                send(answers, TRIAL_READY)
                requests.get()
                nanoseconds = run()
            send(answers, nanoseconds)
    except Empty:
        status = IDLE
    except FlowloomError as error:
        send(answers, error)
    except Exception as error:  # whatever it is, it is the subject's failure
        send(answers, DeviceError(f"{type(error).__name__}: {error}"))
    os._exit(status)  # an ordinary end would wait for the thread that reads


def _read(stdin: IO[bytes], requests: SimpleQueue[Any]) -> None:
    """Pass requests on, and end this process with the other end of the pipe.

    The main thread may wait for a kernel that does not end, and the other end is closed however
    that process ends.
    """
    try:
        while (request := receive(stdin)) is not None:
            requests.put(request)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)
