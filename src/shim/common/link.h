// SPDX-License-Identifier: Apache-2.0
// This process's connection to klab: HELLO, CONFIG, records, and bulk data through the shared ring.
// Not here: what is said (vulkan/, cuda/). Each shim has its own copy: they share no state in a process.
#pragma once
#include <regex.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "shim/abi/abi.h"

namespace klab::shim {

/// One line on stderr, "klab: ...": only when something of ours fails. Never in an idle layer.
void log(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::uint64_t now_ns();

struct Config {
  std::uint32_t mode = KLAB_MODE_NONE;
  std::uint32_t scope = KLAB_SCOPE_REACHABLE;
  std::uint64_t deadline_ns = 10'000'000'000ull;
  std::string kernel;
  std::vector<std::uint64_t> nth;
};

/// Thread: any. All calls return quickly or within a bound; once klab is gone every call is a no-op.
class Link {
 public:
  /// Connects when KLAB_CAPTURE_SOCKET is set and this process has not yet.
  void connect();
  bool live() const { return live_.load(std::memory_order_relaxed); }
  const Config& config() const { return config_; }

  /// Sends one record: `fixed` with its header filled in here, then the texts. False: klab is gone or it does
  /// not fit.
  bool send(void* fixed, std::size_t size, std::uint32_t type,
            std::initializer_list<std::string_view> tails = {});
  /// Sends `count` records of `each` bytes as klab_list packets.
  bool send_list(std::uint32_t type, std::uint32_t device, const void* rows, std::size_t each,
                 std::size_t count);
  /// Copies `bytes` (at most a slot) into the ring and announces it. `copy` is where it lies until the next
  /// call.
  bool send_data(std::uint32_t kind, std::uint32_t id, std::uint64_t offset, const void* bytes,
                 std::size_t size, const std::byte** copy = nullptr);
  /// A free slot to fill with up to KLAB_SLOT_BYTES; its number in `slot`. Null: klab is gone. At most half of the
  /// slots may be held at a time. Ends with send_slot or give_back.
  std::byte* take_slot(std::uint32_t* slot);
  bool send_slot(std::uint32_t kind, std::uint32_t id, std::uint64_t offset, std::uint32_t slot, std::size_t size);
  void give_back(std::uint32_t slot);
  /// The whole ring, to be pinned; null when there is none.
  std::byte* ring() const { return ring_; }
  std::size_t ring_bytes() const { return std::size_t{slots_} * KLAB_SLOT_BYTES; }
  /// Trace mode: keeps rows where klab finds them even if this process dies, and sends them in batches.
  void add_rows(const klab_row* rows, std::size_t count);
  /// `all`, else only when there are many or it has been a while.
  void send_rows(bool all);
  /// Sends and waits for the answer; 0: klab is gone.
  std::uint32_t ask(void* fixed, std::size_t size, std::uint32_t type);

  /// In a forked child: forgets the parent's connection.
  void after_fork();

 private:
  bool handshake(int fd);
  bool send_locked(void* fixed, std::size_t size, std::uint32_t type,
                   std::initializer_list<std::string_view> tails);
  void send_rows_locked();
  bool receive_locked(std::uint32_t* answer);
  std::byte* take_slot_locked(std::uint32_t* slot);
  bool send_slot_locked(std::uint32_t kind, std::uint32_t id, std::uint64_t offset, std::uint32_t slot,
                        std::size_t size);
  void drop_locked(const char* why);

  std::mutex lock_;
  std::atomic<bool> live_{false};
  bool tried_ = false;
  int fd_ = -1;
  std::byte* ring_ = nullptr;
  std::uint32_t slots_ = 0;
  std::vector<std::uint32_t> free_;
  klab_pending* pending_ = nullptr;  // in the last slot
  std::uint64_t rows_sent_at_ = 0;
  Config config_;
};

Link& link();

/// Something was left out, or is worth a warning.
void note(const std::string& what, const std::string& why);

}  // namespace klab::shim
