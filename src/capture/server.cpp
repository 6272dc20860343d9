// SPDX-License-Identifier: Apache-2.0
#include "capture/server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace klab::capture {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kRingBytes = std::size_t{KLAB_SLOTS} * KLAB_SLOT_BYTES;
constexpr std::uint64_t kMaxCode = 1u << 30;  // a cubin of a large library
constexpr std::size_t kMaxKernels = 1u << 20;
constexpr std::size_t kMaxProcesses = 4096;
constexpr auto kGrace = std::chrono::seconds(10);     // for processes that outlive the one that we started
constexpr auto kTermLimit = std::chrono::seconds(5);  // from SIGTERM to SIGKILL

std::size_t fixed_size(std::uint32_t type) {
  switch (type) {
    case KLAB_HELLO:
      return sizeof(klab_hello);
    case KLAB_DEVICE:
      return sizeof(klab_device);
    case KLAB_KERNEL:
      return sizeof(klab_kernel);
    case KLAB_ROWS:
    case KLAB_BINDINGS:
    case KLAB_LAYOUT:
    case KLAB_SPEC:
    case KLAB_PUSH_RANGES:
    case KLAB_COUNTS:
    case KLAB_ARGUMENTS:
      return sizeof(klab_list);
    case KLAB_CAPTURE_BEGIN:
      return sizeof(klab_capture_begin);
    case KLAB_REGION:
      return sizeof(klab_region);
    case KLAB_SIZE:
      return sizeof(klab_size);
    case KLAB_DATA:
      return sizeof(klab_data_record);
    case KLAB_CAPTURE_END:
      return sizeof(klab_capture_end);
    case KLAB_SUBMITTED:
      return sizeof(klab_submitted);
    case KLAB_REFUSED:
    case KLAB_NOTE:
      return sizeof(klab_text);
    case KLAB_LAUNCH:
      return sizeof(klab_launch);
    case KLAB_ATTRIBUTE:
      return sizeof(klab_attribute);
    case KLAB_TEXTURE:
      return sizeof(klab_texture);
    case KLAB_DEVICE_DETAIL:
      return sizeof(klab_device_detail);
    case KLAB_AQL:
      return sizeof(klab_aql);
    default:
      return 0;
  }
}

template <class T>
T fixed(std::span<const std::byte> packet) {
  T record;
  std::memcpy(&record, packet.data(), sizeof record);
  return record;
}

tl::unexpected<Error> bad(const char* what) {
  return fail(ErrorCode::invalid_data, fmt::format("the shim sent {}", what));
}

bool send_packet(Process& p, const void* bytes, std::size_t size) {
  for (;;) {
    if (::send(p.socket.get(), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
    if (errno != EINTR) return false;
  }
}

const char* device_type(std::uint32_t type) {
  static constexpr const char* kTypes[] = {"other", "integrated", "discrete", "virtual", "cpu"};
  return type < 5 ? kTypes[type] : "other";
}

Status on_device(Process& p, std::span<const std::byte> packet) {
  const auto r = fixed<klab_device>(packet);
  std::vector<std::string> texts;
  if (!read_texts(packet, sizeof r, {r.name_length, r.driver_length, r.driver_version_length}, texts) ||
      p.devices.size() > 1024)
    return bad("a device that does not parse");
  bundle::DeviceIdentity d;
  d.name = texts[0], d.driver = texts[1], d.driver_version = texts[2];
  switch (r.api) {
    case KLAB_API_VULKAN:
      d.api = "vulkan";
      d.api_version = fmt::format("{}.{}.{}", r.api_version >> 22 & 0x7f, r.api_version >> 12 & 0x3ff,
                                  r.api_version & 0xfff);
      break;
    case KLAB_API_CUDA:
      d.api = "cuda";
      d.api_version = fmt::format("{}.{}", r.api_version / 1000, r.api_version % 1000 / 10);
      break;
    case KLAB_API_HIP:
      d.api = "hip";
      d.api_version = fmt::format("{}.{}", r.api_version / 1000, r.api_version % 1000);
      break;
    default:
      return bad("a device of an API that is not known");
  }
  if (r.has_uuid != 0) d.uuid = to_hex(std::as_bytes(std::span(r.uuid)));
  d.type = device_type(r.type);
  d.vendor_id = r.vendor_id, d.device_id = r.device_id;
  p.devices[r.device] = std::move(d);
  return {};
}

Status on_device_detail(Process& p, std::span<const std::byte> packet) {
  const auto r = fixed<klab_device_detail>(packet);
  std::vector<std::string> texts;
  const auto device = p.devices.find(r.device);
  if (device == p.devices.end() || !read_texts(packet, sizeof r, {r.arch_length, r.address_length}, texts))
    return bad("details of a device that do not parse");
  device->second.arch = texts[0];
  if (device->second.uuid.empty()) device->second.uuid = texts[1];
  return {};
}

Status on_kernel(Process& p, std::span<const std::byte> packet) {
  const auto r = fixed<klab_kernel>(packet);
  std::vector<std::string> texts;
  if (p.kernels.size() >= kMaxKernels || r.code_size > kMaxCode || r.spec_count > 1024 ||
      !read_texts(packet, sizeof r, {r.name_length, r.entry_length, r.refusal_length, r.code_name_length},
                  texts))
    return bad("a kernel that does not parse");
  KernelSeen k;
  k.name = texts[0], k.entry = texts[1], k.refusal = texts[2], k.code_name = texts[3];
  k.hash = r.hash;
  k.code_hash = {r.code_hash_low, r.code_hash_high};
  k.code_size = r.code_size;
  k.required_subgroup_size = r.required_subgroup_size;
  k.stage_flags = r.stage_flags, k.pipeline_flags = r.pipeline_flags;
  k.has_code = r.has_code != 0;
  std::size_t at = sizeof r;
  for (const auto& t : texts) at += t.size();
  if ((packet.size() - at) / sizeof(klab_spec) < r.spec_count) return bad("a kernel that is cut short");
  k.spec.resize(r.spec_count);
  if (r.spec_count != 0) std::memcpy(k.spec.data(), packet.data() + at, r.spec_count * sizeof(klab_spec));
  p.kernels[r.kernel] = std::move(k);
  return {};
}

// Shared memory for one process of the target. Errors: io_failed.
Result<Fd> make_ring() {
  Fd ring(::memfd_create("klab-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Sealed: the other side cannot cut it short under us.
  if (!ring || ::ftruncate(ring.get(), static_cast<off_t>(kRingBytes)) != 0 ||
      ::fcntl(ring.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail(ErrorCode::io_failed,
                fmt::format("cannot make {} MiB of memory to share with the program: {}", kRingBytes >> 20,
                            std::strerror(errno)),
                "see `ulimit -f` and `ulimit -n`: a limit on the size or number of files counts here");
  return ring;
}

class Server {
 public:
  Server(const Target& target, Sink& sink, Ended& ended) : target_(target), sink_(sink), ended_(ended) {}

  Server(const Server&) = delete;
  ~Server() {
    for (auto& p : ended_.processes)
      if (p->open) close(*p);
  }

  Status run(bool stop_when_done, const Cancelled& cancelled) {
    KLAB_TRY(const Shims shims, find_shims());
    KLAB_TRY(rendezvous_, Rendezvous::create());
    KLAB_TRY(Child child, start_target(target_, shims, rendezvous_->path(), ended_.warnings));
    const auto deadline = Clock::now() + target_.limit;
    std::optional<Clock::time_point> quiet_since;
    for (;;) {
      const bool ended = ended_.status_known || poll_child(child);
      poll_once(child, ended);
      if (cancelled && cancelled()) {
        end_target(child);
        return fail(ErrorCode::interrupted, "interrupted; the target was ended");
      }
      if (Clock::now() > deadline) {
        end_target(child);
        return fail(ErrorCode::timeout,
                    fmt::format("the target ran for longer than {} s", target_.limit.count() / 1000),
                    "raise the limit, or give the program less to do");
      }
      if (stop_when_done && sink_.done() && !ended) {
        end_target(child);
        ended_.by_us = true;
        return {};
      }
      if (!ended) continue;
      const bool any =
          std::any_of(ended_.processes.begin(), ended_.processes.end(), [](auto& p) { return p->open; });
      if (!any) return {};
      if (active_ || !quiet_since) quiet_since = Clock::now();
      if (Clock::now() - *quiet_since > kGrace) {
        ended_.warnings.push_back(
            "a process of the target outlives it; what it does from here on is not seen");
        return {};
      }
    }
  }

 private:
  bool poll_child(Child& child) {
    const auto status = child.wait(std::chrono::milliseconds(0));
    if (!status) return false;
    ended_.status = *status;
    ended_.status_known = true;
    return true;
  }

  void end_target(Child& child) {
    child.kill(SIGTERM);
    auto status = child.wait(kTermLimit);
    child.kill(SIGKILL);  // also what is left of the group
    if (!status) status = child.wait();
    ended_.status = *status;
    ended_.status_known = true;
  }

  void poll_once(Child& child, bool ended) {
    active_ = false;
    std::vector<pollfd> fds{{rendezvous_->fd(), POLLIN, 0}, {ended ? -1 : child.pidfd(), POLLIN, 0}};
    std::vector<Process*> who;
    for (auto& p : ended_.processes)
      if (p->open) {
        fds.push_back({p->socket.get(), POLLIN, 0});
        who.push_back(p.get());
      }
    // After the target's end only what is already there is waited for.
    if (::poll(fds.data(), fds.size(), ended && who.empty() ? 0 : 50) <= 0) return;
    for (std::size_t i = 0; i < who.size(); ++i)
      if (fds[i + 2].revents != 0) receive(*who[i]);
    if ((fds[0].revents & POLLIN) != 0) accept();
  }

  void accept() {
    Fd fd(::accept4(rendezvous_->fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd || ended_.processes.size() >= kMaxProcesses) return;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::getuid()) return;
    auto p = std::make_unique<Process>();
    p->number = ended_.processes.size();
    p->pid = peer.pid;
    p->socket = std::move(fd);
    active_ = true;
    ended_.processes.push_back(std::move(p));
  }

  void close(Process& p) {
    p.open = false;
    sink_.closed(p);
    p.socket = Fd();
    if (p.ring != nullptr) ::munmap(p.ring, kRingBytes);
    p.ring = nullptr;
  }

  void receive(Process& p) {
    alignas(8) thread_local std::byte packet[KLAB_MAX_PACKET];
    // A bounded number at a time, so that one busy process does not starve the others.
    for (int i = 0; i < 256; ++i) {
      const ssize_t n = ::recv(p.socket.get(), packet, sizeof packet, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      // A process that ended with our acknowledgements unread: what it had sent before is still there.
      if (n < 0 && errno == ECONNRESET) continue;
      if (n <= 0) return close(p);
      active_ = true;
      if (auto ok = handle(p, {packet, static_cast<std::size_t>(n)}); !ok) {
        ended_.warnings.push_back(fmt::format("process {}: {}", p.pid, ok.error().what));
        return close(p);
      }
    }
  }

  Status handle(Process& p, std::span<const std::byte> packet) {
    if (packet.size() < sizeof(klab_header)) return bad("a packet without a header");
    const auto header = fixed<klab_header>(packet);
    const std::size_t least = fixed_size(header.type);
    if (header.size != packet.size() || packet.size() < least) return bad("a packet of the wrong size");
    if (least == 0) return {};  // newer than us: nothing that we need
    if (!p.greeted) {
      if (header.type != KLAB_HELLO) return bad("a record before HELLO");
      return greet(p, packet);
    }
    switch (header.type) {
      case KLAB_HELLO:
        return bad("HELLO twice");
      case KLAB_DEVICE:
        return on_device(p, packet);
      case KLAB_DEVICE_DETAIL:
        return on_device_detail(p, packet);
      case KLAB_KERNEL: {
        KLAB_TRY_VOID(on_kernel(p, packet));
        return sink_.message(p, header, packet);
      }
      case KLAB_COUNTS: {
        KLAB_TRY(const auto rows, read_list<klab_count>(packet));
        for (const klab_count& r : rows)
          if (const auto it = p.kernels.find(r.kernel); it != p.kernels.end())
            it->second.executions = r.executions;
        return {};
      }
      case KLAB_DATA:
        return on_data(p, packet);
      case KLAB_SIZE: {
        klab_answer_record answer{{KLAB_ANSWER, sizeof answer}, sink_.answer(p, fixed<klab_size>(packet)), 0};
        if (!send_packet(p, &answer, sizeof answer)) return bad("a question and did not wait for the answer");
        return {};
      }
      default:
        return sink_.message(p, header, packet);
    }
  }

  Status greet(Process& p, std::span<const std::byte> packet) {
    const auto hello = fixed<klab_hello>(packet);
    std::vector<std::string> texts;
    if (hello.abi_version != KLAB_ABI_VERSION)
      return fail(ErrorCode::unsupported, fmt::format("its layer speaks version {}, this klab speaks {}",
                                                      hello.abi_version, KLAB_ABI_VERSION));
    if (!read_texts(packet, sizeof hello, {hello.executable_length}, texts))
      return bad("a HELLO that does not parse");
    p.executable = texts[0];
    KLAB_TRY(const Fd ring, make_ring());
    void* mapped = ::mmap(nullptr, kRingBytes, PROT_READ, MAP_SHARED, ring.get(), 0);
    if (mapped == MAP_FAILED) return fail_errno(errno, "mmap");
    p.ring = static_cast<std::byte*>(mapped);
    const std::string kernel = sink_.kernel();
    const std::vector<std::uint64_t> nth = sink_.nth();
    klab_config config = sink_.config();
    config.abi_version = KLAB_ABI_VERSION;
    config.slot_count = KLAB_SLOTS;
    config.slot_bytes = KLAB_SLOT_BYTES;
    config.kernel_length = static_cast<std::uint32_t>(kernel.size());
    config.nth_count = static_cast<std::uint32_t>(nth.size());
    config.h = {KLAB_CONFIG, static_cast<std::uint32_t>(sizeof config + kernel.size() +
                                                        nth.size() * sizeof(std::uint64_t))};
    iovec parts[3] = {{&config, sizeof config},
                      {const_cast<char*>(kernel.data()), kernel.size()},
                      {const_cast<std::uint64_t*>(nth.data()), nth.size() * sizeof(std::uint64_t)}};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 3;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = ring.get();
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (::sendmsg(p.socket.get(), &message, MSG_NOSIGNAL) < 0) return fail_errno(errno, "send to the target");
    p.greeted = true;
    return {};
  }

  Status on_data(Process& p, std::span<const std::byte> packet) {
    const auto r = fixed<klab_data_record>(packet);
    if (r.slot >= KLAB_SLOTS || r.bytes > KLAB_SLOT_BYTES) return bad("a slot that does not exist");
    const std::span<const std::byte> bytes(p.ring + std::size_t{r.slot} * KLAB_SLOT_BYTES, r.bytes);
    Status result;
    if (r.kind == KLAB_DATA_CODE) {
      const auto it = p.kernels.find(r.id);
      if (it == p.kernels.end()) return bad("code of an unknown kernel");
      KernelSeen& k = it->second;
      if (r.offset != k.code.size() || r.bytes > k.code_size - k.code.size()) return bad("code out of order");
      k.code.insert(k.code.end(), bytes.begin(), bytes.end());
      if (k.code.size() == k.code_size && hash_bytes(k.code) != k.code_hash)
        return bad("code with another hash");
    } else {
      result = sink_.data(p, r, bytes);
    }
    const klab_ack ack{{KLAB_ACK, sizeof ack}, r.slot, 0};
    send_packet(p, &ack, sizeof ack);  // a process that has ended needs it no more
    return result;
  }

  const Target& target_;
  Sink& sink_;
  Ended& ended_;
  std::optional<Rendezvous> rendezvous_;
  bool active_ = false;
};

}  // namespace

Process::~Process() {
  if (ring != nullptr) ::munmap(ring, kRingBytes);
}

bool read_texts(std::span<const std::byte> packet, std::size_t fixed_part,
                std::initializer_list<std::uint32_t> lengths, std::vector<std::string>& texts) {
  std::size_t at = fixed_part;
  for (const std::uint32_t n : lengths) {
    if (n > KLAB_MAX_TEXT || at > packet.size() || n > packet.size() - at) return false;
    std::string text(reinterpret_cast<const char*>(packet.data()) + at, n);
    // Texts go into JSON and onto terminals: no control characters, whatever the program calls its kernels.
    for (char& c : text)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    texts.push_back(std::move(text));
    at += n;
  }
  return true;
}

Result<Ended> serve(const Target& target, Sink& sink, bool stop_when_done, const Cancelled& cancelled) {
  Ended ended;
  // Found out before the target starts: later it would only look as if the target had no kernels.
  KLAB_TRY_VOID(make_ring());
  KLAB_TRY_VOID(Server(target, sink, ended).run(stop_when_done, cancelled));
  return ended;
}

}  // namespace klab::capture
