// SPDX-License-Identifier: Apache-2.0
#include "worker/confine.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef KLAB_SECCOMP
#include <seccomp.h>
#endif

namespace klab::worker {
namespace {

constexpr rlim_t kMostMemory = 64ull << 30;   // bytes of address space: region files are mapped
constexpr rlim_t kMostFile = 1ull << 30;      // bytes of a file that it writes
constexpr rlim_t kMostFiles = 4096;

#ifdef KLAB_SECCOMP
/// Sockets and what could make one: every one of these answers EACCES. io_uring makes sockets past a filter.
int deny_network() {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (filter == nullptr) return -ENOMEM;
  int error = 0;
  for (const int call : {SCMP_SYS(socket), SCMP_SYS(socketpair), SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(listen),
                         SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(io_uring_setup), SCMP_SYS(ptrace),
                         SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(pidfd_getfd),
                         SCMP_SYS(unshare), SCMP_SYS(setns)})
    if (error == 0) error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), call, 0);
  if (error == 0) error = seccomp_load(filter);
  seccomp_release(filter);
  return error;
}
#endif

void limit(int which, rlim_t most) {
  rlimit now{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(which), &now) != 0) return;
  if (now.rlim_cur == RLIM_INFINITY || now.rlim_cur > most) now.rlim_cur = most;
  if (now.rlim_max == RLIM_INFINITY || now.rlim_max > most) now.rlim_max = most;
  (void)::setrlimit(static_cast<__rlimit_resource_t>(which), &now);
}

}  // namespace

std::vector<std::string> confined(const std::vector<std::string>& command, int descriptors) {
  std::vector<std::string> argv{"/proc/self/exe", "--confine", std::to_string(descriptors)};
  argv.insert(argv.end(), command.begin(), command.end());
  return argv;
}

Status can_confine() {
#ifdef KLAB_SECCOMP
  return {};
#else
  return fail(ErrorCode::environment, "this Klab was built without libseccomp: it cannot keep a checker from the network",
              "install libseccomp-dev and build again");
#endif
}

int run_confined(int argc, char** argv) {
  int descriptors = 0;
  if (argc < 4 || std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), descriptors).ec != std::errc{}) {
    std::fprintf(stderr, "klab-worker --confine: no command\n");
    return 126;
  }
  for (const int signal : {SIGPIPE, SIGINT}) ::signal(signal, SIG_DFL);  // the worker ignores them
  (void)::close_range(static_cast<unsigned>(3 + descriptors), ~0u, 0);
  limit(RLIMIT_AS, kMostMemory);
  limit(RLIMIT_FSIZE, kMostFile);
  limit(RLIMIT_NOFILE, kMostFiles);
  limit(RLIMIT_CORE, 0);
#ifdef KLAB_SECCOMP
  if (const int error = deny_network(); error != 0) {  // also sets no_new_privs
    std::fprintf(stderr, "klab-worker --confine: seccomp: %s\n", std::strerror(-error));
    return 126;
  }
#else
  std::fprintf(stderr, "klab-worker --confine: %s\n", can_confine().error().what.c_str());
  return 126;
#endif
  ::execvp(argv[3], argv + 3);
  std::fprintf(stderr, "cannot run %s: %s\n", argv[3], std::strerror(errno));
  return 127;
}

}  // namespace klab::worker
