// SPDX-License-Identifier: Apache-2.0
#include "shim/common/link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

namespace klab::shim {
namespace {
constexpr int kAnswerMs = 120'000;  // klab may be writing to a slow disk
constexpr int kHelloMs = 10'000;

bool wait_readable(int fd, int limit_ms) {
  const std::uint64_t end = now_ns() + static_cast<std::uint64_t>(limit_ms) * 1'000'000;
  for (;;) {
    const std::uint64_t now = now_ns();
    if (now >= end) return false;
    pollfd p{fd, POLLIN, 0};
    const int n = ::poll(&p, 1, static_cast<int>((end - now) / 1'000'000 + 1));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}
}  // namespace

void log(const char* format, ...) {
  char text[512];
  int n = std::snprintf(text, sizeof text, "klab: ");
  va_list args;
  va_start(args, format);
  const int more = std::vsnprintf(text + n, sizeof text - static_cast<std::size_t>(n) - 1, format, args);
  va_end(args);
  n = std::min(n + std::max(more, 0), static_cast<int>(sizeof text) - 2);
  text[n++] = '\n';
  (void)!::write(2, text, static_cast<std::size_t>(n));
}

std::uint64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000ull + static_cast<std::uint64_t>(t.tv_nsec);
}

Link& link() {
  static Link* const the = new Link;  // never destroyed: hooks may run during exit
  return *the;
}

void Link::connect() {
  std::lock_guard hold(lock_);
  if (tried_) return;
  tried_ = true;
  const char* path = std::getenv(KLAB_SOCKET_VARIABLE);
  if (path == nullptr || *path == '\0') return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) {
    log("%s is too long; not capturing", KLAB_SOCKET_VARIABLE);
    return;
  }
  std::strcpy(address.sun_path, path);
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  // A klab that is gone is no news to the program: it was asked to go on without us.
  if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    log("cannot reach klab at %s (%s); the program goes on without it", path, std::strerror(errno));
    if (fd >= 0) ::close(fd);
    return;
  }
  timeval limit{kAnswerMs / 1000, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (!handshake(fd)) {
    log("klab did not answer as expected; the program goes on without it");
    ::close(fd);
    return;
  }
  fd_ = fd;
  live_ = true;
}

bool Link::handshake(int fd) {
  char exe[4096];
  const ssize_t n = ::readlink("/proc/self/exe", exe, sizeof exe);
  klab_hello hello{};
  hello.h = {KLAB_HELLO, 0};
  hello.abi_version = KLAB_ABI_VERSION;
  hello.struct_size = sizeof(klab_config);
  hello.pid = ::getpid();
  hello.start_time = now_ns();
  hello.executable_length = n > 0 ? static_cast<std::uint32_t>(n) : 0;
  hello.h.size = static_cast<std::uint32_t>(sizeof hello) + hello.executable_length;
  iovec parts[2] = {{&hello, sizeof hello}, {exe, hello.executable_length}};
  msghdr out{};
  out.msg_iov = parts;
  out.msg_iovlen = 2;
  if (::sendmsg(fd, &out, MSG_NOSIGNAL) < 0 || !wait_readable(fd, kHelloMs)) return false;

  alignas(8) static char packet[KLAB_MAX_PACKET];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec in{packet, sizeof packet};
  msghdr message{};
  message.msg_iov = &in;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  int ring = -1;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
      std::memcpy(&ring, CMSG_DATA(c), sizeof ring);
  klab_config c{};
  bool ok = got >= static_cast<ssize_t>(sizeof c);
  if (ok) {
    std::memcpy(&c, packet, sizeof c);
    ok = c.h.type == KLAB_CONFIG && c.abi_version == KLAB_ABI_VERSION && c.slot_bytes == KLAB_SLOT_BYTES &&
         c.slot_count >= 1 && c.slot_count <= 1024 && c.kernel_length <= KLAB_MAX_TEXT &&
         c.nth_count <= KLAB_MAX_NTH &&
         sizeof c + c.kernel_length + c.nth_count * sizeof(std::uint64_t) <= static_cast<std::size_t>(got);
  }
  struct stat st {};
  const std::size_t bytes = static_cast<std::size_t>(c.slot_count) * c.slot_bytes;
  ok = ok && ring >= 0 && ::fstat(ring, &st) == 0 && static_cast<std::size_t>(st.st_size) >= bytes;
  void* mapped = MAP_FAILED;
  if (ok) mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
  if (ring >= 0) ::close(ring);
  if (mapped == MAP_FAILED) return false;
  ::madvise(mapped, bytes, MADV_DONTFORK);
  ring_ = static_cast<std::byte*>(mapped);
  slots_ = c.slot_count;
  free_.clear();
  for (std::uint32_t i = 0; i < slots_; ++i) free_.push_back(i);
  pending_ = nullptr;
  if (c.mode == KLAB_MODE_TRACE && slots_ >= 2) {
    free_.pop_back();
    pending_ = reinterpret_cast<klab_pending*>(ring_ + std::size_t{slots_ - 1} * KLAB_SLOT_BYTES);
  }
  config_.mode = c.mode;
  config_.scope = c.scope;
  config_.deadline_ns = c.deadline_ns;
  config_.kernel.assign(packet + sizeof c, c.kernel_length);
  config_.nth.resize(c.nth_count);
  if (c.nth_count != 0)
    std::memcpy(config_.nth.data(), packet + sizeof c + c.kernel_length, c.nth_count * sizeof(std::uint64_t));
  return true;
}

void Link::drop_locked(const char* why) {
  if (fd_ < 0) return;
  log("lost klab (%s); the program goes on without it", why);
  ::close(fd_);
  fd_ = -1;
  live_ = false;
}

bool Link::send_locked(void* fixed, std::size_t size, std::uint32_t type,
                       std::initializer_list<std::string_view> tails) {
  if (fd_ < 0) return false;
  iovec parts[8];
  std::size_t count = 0, total = size;
  parts[count++] = {fixed, size};
  for (const std::string_view tail : tails) {
    if (tail.empty() || count == 8) continue;
    parts[count++] = {const_cast<char*>(tail.data()), tail.size()};
    total += tail.size();
  }
  if (total > KLAB_MAX_PACKET) return false;
  auto* header = static_cast<klab_header*>(fixed);
  *header = {type, static_cast<std::uint32_t>(total)};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  for (;;) {
    if (::sendmsg(fd_, &message, MSG_NOSIGNAL) >= 0) return true;
    if (errno == EINTR) continue;
    drop_locked(std::strerror(errno));
    return false;
  }
}

bool Link::send(void* fixed, std::size_t size, std::uint32_t type,
                std::initializer_list<std::string_view> tails) {
  std::lock_guard hold(lock_);
  return send_locked(fixed, size, type, tails);
}

bool Link::send_list(std::uint32_t type, std::uint32_t device, const void* rows, std::size_t each,
                     std::size_t count) {
  const std::size_t at_once = (KLAB_MAX_PACKET / 2) / each;
  const char* p = static_cast<const char*>(rows);
  std::lock_guard hold(lock_);
  while (count != 0) {
    const std::size_t n = std::min(count, at_once);
    klab_list list{};
    list.device = device;
    list.count = static_cast<std::uint32_t>(n);
    if (!send_locked(&list, sizeof list, type, {std::string_view(p, n * each)})) return false;
    p += n * each;
    count -= n;
  }
  return true;
}

// Takes one message of klab's; an answer is stored, an acknowledged slot becomes free.
bool Link::receive_locked(std::uint32_t* answer) {
  if (fd_ < 0) return false;
  if (!wait_readable(fd_, kAnswerMs)) {
    drop_locked("no answer");
    return false;
  }
  alignas(8) char packet[256];
  ssize_t n;
  do n = ::recv(fd_, packet, sizeof packet, 0);
  while (n < 0 && errno == EINTR);
  if (n < static_cast<ssize_t>(sizeof(klab_header))) {
    drop_locked(n == 0 ? "it ended" : "bad message");
    return false;
  }
  klab_header h;
  std::memcpy(&h, packet, sizeof h);
  if (h.type == KLAB_ACK && n >= static_cast<ssize_t>(sizeof(klab_ack))) {
    klab_ack ack;
    std::memcpy(&ack, packet, sizeof ack);
    if (ack.slot < slots_ && free_.size() < slots_) free_.push_back(ack.slot);
  } else if (h.type == KLAB_ANSWER && n >= static_cast<ssize_t>(sizeof(klab_answer_record))) {
    klab_answer_record a;
    std::memcpy(&a, packet, sizeof a);
    if (answer != nullptr) *answer = a.answer;
  }
  return true;
}

std::byte* Link::take_slot_locked(std::uint32_t* slot) {
  while (free_.empty())
    if (!receive_locked(nullptr)) return nullptr;
  if (fd_ < 0) return nullptr;
  // The oldest free slot: the copy that the caller scans stays untouched until the ring has gone round.
  *slot = free_.front();
  free_.erase(free_.begin());
  return ring_ + static_cast<std::size_t>(*slot) * KLAB_SLOT_BYTES;
}

bool Link::send_slot_locked(std::uint32_t kind, std::uint32_t id, std::uint64_t offset, std::uint32_t slot,
                            std::size_t size) {
  klab_data_record record{};
  record.kind = kind;
  record.id = id;
  record.offset = offset;
  record.slot = slot;
  record.bytes = static_cast<std::uint32_t>(size);
  return send_locked(&record, sizeof record, KLAB_DATA, {});
}

bool Link::send_data(std::uint32_t kind, std::uint32_t id, std::uint64_t offset, const void* bytes,
                     std::size_t size, const std::byte** copy) {
  std::lock_guard hold(lock_);
  std::uint32_t slot = 0;
  std::byte* to = take_slot_locked(&slot);
  if (to == nullptr) return false;
  std::memcpy(to, bytes, size);
  if (copy != nullptr) *copy = to;
  return send_slot_locked(kind, id, offset, slot, size);
}

std::byte* Link::take_slot(std::uint32_t* slot) {
  std::lock_guard hold(lock_);
  return take_slot_locked(slot);
}

bool Link::send_slot(std::uint32_t kind, std::uint32_t id, std::uint64_t offset, std::uint32_t slot,
                     std::size_t size) {
  std::lock_guard hold(lock_);
  return send_slot_locked(kind, id, offset, slot, size);
}

void Link::give_back(std::uint32_t slot) {
  std::lock_guard hold(lock_);
  if (slot < slots_ && free_.size() < slots_) free_.insert(free_.begin(), slot);
}

void Link::add_rows(const klab_row* rows, std::size_t count) {
  std::lock_guard hold(lock_);
  if (fd_ < 0 || pending_ == nullptr) return;
  auto* kept = reinterpret_cast<klab_row*>(pending_ + 1);
  static_assert(sizeof(klab_row) <= 80 && sizeof(klab_pending) == 8);
  for (std::size_t i = 0; i < count; ++i) {
    if (pending_->count >= KLAB_MAX_PENDING) send_rows_locked();
    kept[pending_->count] = rows[i];
    __atomic_store_n(&pending_->count, pending_->count + 1, __ATOMIC_RELEASE);
  }
}

void Link::send_rows_locked() {
  constexpr std::size_t kAtOnce = 512;
  const auto* kept = reinterpret_cast<const klab_row*>(pending_ + 1);
  for (std::size_t at = 0; at < pending_->count; at += kAtOnce) {
    klab_list list{};
    list.count = static_cast<std::uint32_t>(std::min<std::size_t>(kAtOnce, pending_->count - at));
    const std::string_view rows(reinterpret_cast<const char*>(kept + at), list.count * sizeof(klab_row));
    if (!send_locked(&list, sizeof list, KLAB_ROWS, {rows})) break;
  }
  __atomic_store_n(&pending_->count, 0u, __ATOMIC_RELEASE);
  rows_sent_at_ = now_ns();
}

void Link::send_rows(bool all) {
  constexpr std::uint64_t kEveryNs = 50'000'000;
  std::lock_guard hold(lock_);
  if (fd_ < 0 || pending_ == nullptr || pending_->count == 0) return;
  if (all || pending_->count >= 512 || now_ns() - rows_sent_at_ > kEveryNs) send_rows_locked();
}

std::uint32_t Link::ask(void* fixed, std::size_t size, std::uint32_t type) {
  std::lock_guard hold(lock_);
  if (!send_locked(fixed, size, type, {})) return 0;
  std::uint32_t answer = 0;
  while (answer == 0)
    if (!receive_locked(&answer)) return 0;
  return answer;
}

void Link::after_fork() {
  new (&lock_) std::mutex;  // another thread may have held it
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  live_ = false;
  tried_ = false;
  pending_ = nullptr;
  ring_ = nullptr;  // not mapped in the child (MADV_DONTFORK)
  config_.mode = KLAB_MODE_NONE;
}

void note(const std::string& what, const std::string& why) {
  const std::string_view w = std::string_view(what).substr(0, KLAB_MAX_TEXT);
  const std::string_view y = std::string_view(why).substr(0, KLAB_MAX_TEXT);
  klab_text record{};
  record.what_length = static_cast<std::uint32_t>(w.size());
  record.why_length = static_cast<std::uint32_t>(y.size());
  link().send(&record, sizeof record, KLAB_NOTE, {w, y});
}

}  // namespace klab::shim
