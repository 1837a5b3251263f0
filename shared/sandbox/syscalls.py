"""The numbers of Linux's system calls on both processors, and those that a confined program may make."""

import errno
import os
from functools import cache
from typing import Final

# Name, number on x86-64, number on arm64; there, calls that `-` stands for have newer names only.
_NUMBERS: Final = """
read 0 63; write 1 64; readv 19 65; writev 20 66; pread64 17 67; pwrite64 18 68; preadv 295 69; pwritev 296 70;
preadv2 327 286; pwritev2 328 287; open 2 -; openat 257 56; openat2 437 437; creat 85 -; close 3 57; close_range 436
436; lseek 8 62; sendfile 40 71; copy_file_range 326 285; splice 275 76; fsync 74 82; fdatasync 75 83; ftruncate 77
46; fallocate 285 47; fadvise64 221 223; sync_file_range 277 84; flock 73 32; stat 4 -; fstat 5 80; lstat 6 -;
newfstatat 262 79; statx 332 291; statfs 137 43; fstatfs 138 44; access 21 -; faccessat 269 48; faccessat2 439 439;
readlink 89 -; readlinkat 267 78; getdents 78 -; getdents64 217 61; getcwd 79 17; chdir 80 49; fchdir 81 50; mkdir
83 -; mkdirat 258 34; rmdir 84 -; unlink 87 -; unlinkat 263 35; rename 82 -; renameat 264 38; renameat2 316 276;
link 86 -; linkat 265 37; symlink 88 -; symlinkat 266 36; umask 95 166; dup 32 23; dup2 33 -; dup3 292 24; pipe 22
-; pipe2 293 59; mmap 9 222; munmap 11 215; mremap 25 216; mprotect 10 226; madvise 28 233; mincore 27 232; brk 12
214; poll 7 -; ppoll 271 73; select 23 -; pselect6 270 72; epoll_create 213 -; epoll_create1 291 20; epoll_ctl 233
21; epoll_wait 232 -; epoll_pwait 281 22; eventfd2 290 19; futex 202 98; set_robust_list 273 99; get_robust_list 274
100; rseq 334 293; membarrier 324 283; set_tid_address 218 96; sched_yield 24 124; sched_getaffinity 204 123; getcpu
309 168; restart_syscall 219 128; rt_sigaction 13 134; rt_sigprocmask 14 135; rt_sigreturn 15 139; rt_sigpending 127
136; rt_sigsuspend 130 133; rt_sigtimedwait 128 137; sigaltstack 131 132; pause 34 -; nanosleep 35 101;
clock_nanosleep 230 115; clock_gettime 228 113; clock_getres 229 114; gettimeofday 96 169; time 201 -; times 100
153; alarm 37 -; getitimer 36 102; setitimer 38 103; timer_create 222 107; timer_settime 223 110; timer_gettime 224
108; timer_getoverrun 225 109; timer_delete 226 111; getpid 39 172; getppid 110 173; gettid 186 178; getuid 102 174;
geteuid 107 175; getgid 104 176; getegid 108 177; getresuid 118 148; getresgid 120 150; getgroups 115 158; getpgid
121 155; getpgrp 111 -; getsid 124 156; getrusage 98 165; getrlimit 97 163; getpriority 140 141; sysinfo 99 179;
uname 63 160; getrandom 318 278; arch_prctl 158 -; exit 60 93; exit_group 231 94; recvfrom 45 207; shutdown 48 210;
clone 56 220; clone3 435 435; prlimit64 302 261; tgkill 234 131; kill 62 129; fcntl 72 25; ioctl 16 29; socketpair
53 199; sendto 44 206; fork 57 -; vfork 58 -; execve 59 221; wait4 61 260; waitid 247 95; chmod 90 -; fchmod 91 52;
fchmodat 268 53; fchmodat2 452 452; chown 92 -; fchown 93 55; lchown 94 -; listxattr 194 11; llistxattr 195 12;
flistxattr 196 13; fchownat 260 54; utime 132 -; utimes 235 -; futimesat 261 -; utimensat 280 88; capset 126 91;
seccomp 317 277; landlock_create_ruleset 444 444; landlock_add_rule 445 445; landlock_restrict_self 446 446
"""
# The machine's column, and how the kernel names its processor to a filter.
_MACHINES: Final = {"x86_64": (1, 0xC000003E), "aarch64": (2, 0xC00000B7)}

_CONDITIONAL = "clone clone3 close_range prlimit64 kill tgkill fcntl ioctl socketpair sendto"
_NOT_FOR_CONFINED = "capset seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self"
# Without effect and without an error, so that copying a file with its mode works: Landlock does not stop them outside.
WITHOUT_EFFECT: Final = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat"),
)
# Answered as on a file system without them, which programs that copy files know. Room for a file could be taken faster
# than anybody watches; the C library writes it instead.
NOT_SUPPORTED: Final = ("listxattr", "llistxattr", "flistxattr", "fallocate")
# What a shell needs to start commands.
FOR_COMMANDS: Final = ("fork", "vfork", "execve", "wait4", "waitid")


def is_known_machine() -> bool:
    """Tell whether this processor's numbers are known."""
    return os.uname().machine in _MACHINES


@cache
def read_machine() -> tuple[dict[str, int], int]:
    """Return this processor's numbers by name, and how filters are told of it; raises `OSError` for another one."""
    if not is_known_machine():
        raise OSError(errno.ENOSYS, f"the sandbox knows x86-64 and arm64, not {os.uname().machine}")
    column, architecture = _MACHINES[os.uname().machine]
    rows = (row.split() for row in _NUMBERS.split(";"))
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}, architecture


def list_allowed(numbers: dict[str, int]) -> list[str]:
    """Return the names of the calls that every confined program may make, whatever their arguments."""
    others = {*_CONDITIONAL.split(), *_NOT_FOR_CONFINED.split(), *WITHOUT_EFFECT, *NOT_SUPPORTED, *FOR_COMMANDS}
    return [name for name in numbers if name not in others]
