/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime-default PROGRAM ARG…: runs a program, and all that it starts, without the system calls that container runtimes
 * refuse by default to who has no capability for them (seccompProfile RuntimeDefault): all that want more than BPF,
 * NET_ADMIN, NET_RAW and PERFMON, and what nobody gets.
 */

#include <errno.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAMESPACES                                                                                                     \
	(CLONE_NEWCGROUP | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWUTS)
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)

static const unsigned int refused[] = {
	/* with SYS_ADMIN */
	__NR_fanotify_init, __NR_fsconfig, __NR_fsmount, __NR_fsopen, __NR_fspick, __NR_lookup_dcookie, __NR_mount,
	__NR_mount_setattr, __NR_move_mount, __NR_open_tree, __NR_quotactl, __NR_setdomainname, __NR_sethostname,
	__NR_setns, __NR_syslog, __NR_umount2, __NR_unshare,
	/* with a capability of their own */
	__NR_acct, __NR_chroot, __NR_clock_settime, __NR_delete_module, __NR_finit_module, __NR_get_mempolicy,
	__NR_init_module, __NR_kcmp, __NR_mbind, __NR_open_by_handle_at, __NR_pidfd_getfd, __NR_process_madvise,
	__NR_process_vm_readv, __NR_process_vm_writev, __NR_ptrace, __NR_reboot, __NR_set_mempolicy, __NR_settimeofday,
	__NR_vhangup,
	/* with none */
	__NR_add_key, __NR_io_uring_enter, __NR_io_uring_register, __NR_io_uring_setup, __NR_kexec_load, __NR_keyctl,
	__NR_pivot_root, __NR_request_key, __NR_swapoff, __NR_swapon, __NR_userfaultfd,
};

#define COUNT (sizeof(refused) / sizeof(refused[0]))

/* Fills in the filter, and returns its length. */
static unsigned short fill(struct sock_filter *filter)
{
	unsigned short n = 0;

	filter[n++] = (struct sock_filter)LOAD(nr);
	for (size_t i = 0; i < COUNT; i++) {
		filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], 0, 1);
		filter[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_ERRNO | EPERM);
	}
	/* Its flags cannot be seen from here: it is as if the kernel had none, and libc takes clone. */
	filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 0, 1);
	filter[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_ERRNO | ENOSYS);
	filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 3);
	filter[n++] = (struct sock_filter)LOAD(args[0]);
	filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1);
	filter[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_ERRNO | EPERM);
	filter[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW);
	return n;
}

int main(int argc, char **argv)
{
	struct sock_filter filter[2 * COUNT + 8];
	struct sock_fprog program = { .len = fill(filter), .filter = filter };

	if (argc < 2) {
		fprintf(stderr, "usage: runtime-default PROGRAM [ARG ...]\n");
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) {
		perror("runtime-default: seccomp");
		return 1;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
