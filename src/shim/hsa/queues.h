// SPDX-License-Identifier: Apache-2.0
// The program's queues, made so that every packet passes here; waiting until they and its copies are idle.
// Not here: what is done with a dispatch (capture.h, trace.h).
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "shim/hsa/packets.h"

namespace klab::shim {

using Writer = hsa_amd_queue_intercept_packet_writer;

struct Queue {
  std::uint32_t number = 0;  // in order of creation
  hsa_agent_t agent{};
  bool cooperative = false;
  hsa_signal_t counter{};  // goes down by one as each dispatch ends
  std::atomic<std::int64_t> submitted{0};
};

/// Hands packets on, by one call of `write`: older runtimes bear only one in a handler. Until captures are
/// over each dispatch is counted when it ends, by its completion signal when it has none of its own, else by
/// a barrier behind it; and what it writes is made visible to copies then, so that nothing need be flushed
/// when a capture comes.
void forward(Queue& queue, const Packet* packets, std::uint64_t count, Writer write);

/// Polls until every dispatch and copy that was submitted is done. A copy that waits for something is not
/// waited for: what it waits for cannot come while all else stands. Empty: idle; else what is not.
std::string drain(std::uint64_t deadline_ns);

/// Polls until `signal` is below 1. False: not within the deadline.
bool wait_signal(hsa_signal_t signal, std::uint64_t deadline_ns);
/// A signal of value 1 that the CPU polls; handle 0: none left.
hsa_signal_t new_signal();

void hook_queues(HsaApiTable& table);
/// The runtime goes; handles mean nothing from here on.
void forget_queues();
void queues_after_fork();

}  // namespace klab::shim
