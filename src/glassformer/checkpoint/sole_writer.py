"""One writer per run folder: a lock that names its owner.

The lock is the kernel's (`flock`), on a file in the folder that holds the owner's host, process and
time. It ends with its process, however that ends, so a lock file alone blocks no process: a process
that is gone, or whose number another one has now, holds nothing. NFS passes such locks on to its
server. Where a file system has no locks, or only those of one machine, the file still tells that
another machine wrote to the folder.
"""

import errno
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple

from glassformer.checkpoint.format import one_clear_error
from glassformer.errors import CheckpointError

LOCK = "lock.json"
BOOT = Path("/proc/sys/kernel/random/boot_id")  # differs by machine and by boot, not by container
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # errors of a file system without them

Notice = Callable[[str], None]


class Owner(NamedTuple):
    """The process that writes to a run folder."""

    host: str
    pid: int
    since: str  # UTC
    boot: str  # identifies the running kernel; empty where there is no such number

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"

    @classmethod
    def this_process(cls) -> "Owner":
        boot = BOOT.read_text().strip() if BOOT.is_file() else ""
        now = datetime.now(UTC).isoformat(" ", "seconds")
        return cls(socket.gethostname(), os.getpid(), now, boot)

    def is_here(self) -> bool:
        """Return whether the owner ran on this machine, in this container or another."""
        here = Owner.this_process()
        return self.host == here.host or bool(self.boot and self.boot == here.boot)


@contextmanager
def sole_writer(folder: Path, notice: Notice) -> Iterator[None]:
    """Hold the lock of a run folder, or refuse because another process holds it.

    Readers need no lock: checkpoints appear whole. Folders that stay empty are removed.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    with one_clear_error(f"The folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        file = _open_locked(folder / LOCK, notice)
    try:
        yield
    finally:
        (folder / LOCK).unlink(missing_ok=True)  # before the lock ends: it may be another's then
        file.close()
        with suppress(OSError):  # not empty: the run is in it
            for path in created:
                path.rmdir()


def _open_locked(path: Path, notice: Notice) -> IO[str]:
    """Return the lock file, locked and with this process as its owner."""
    while True:
        file = path.open("a+")
        if not _lock(file):
            notice(
                f"{path.parent}: this file system has no locks, so nothing here can tell whether "
                "another training writes to the folder. Make sure that none does."
            )
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        file.close()  # its owner has removed it, so that others lock another file by now
    if before := _owner(file):
        if not before.is_here():
            file.close()
            raise CheckpointError(
                f"{path.parent} belongs to another training: {before}.",
                "Whether that machine still writes to the folder cannot be seen from here.",
                f"If no training runs there any more: rm {path}, and repeat the command.",
            )
        notice(f"the training that wrote to {path.parent} before is gone ({before})")
    file.truncate(0)
    file.write(json.dumps(Owner.this_process()._asdict()) + "\n")
    file.flush()
    return file


def _lock(file: IO[str]) -> bool:
    """Lock a file and return True, or return False if its file system has no locks."""
    if sys.platform == "win32":
        return False
    from fcntl import LOCK_EX, LOCK_NB, flock

    try:
        flock(file, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        owner, folder = _owner(file), Path(file.name).parent
        file.close()
        raise CheckpointError(
            f"Another training writes to {folder}: {owner or 'a process that has just begun'}.",
            "Two of them would overwrite each other's checkpoints and mix their logs.",
            f"Wait for it, stop it, or name another folder: --run {folder}-2.",
        ) from None
    except OSError as error:
        if error.errno in NO_LOCKS:
            return False
        raise
    return True


def _owner(file: IO[str]) -> Owner | None:
    """Read the owner from a lock file; None from one that was cut short."""
    file.seek(0)
    try:
        return Owner(**json.load(file))
    except (ValueError, TypeError):
        return None
