// SPDX-License-Identifier: Apache-2.0
// Packets of a program in capture mode: the wanted dispatch is taken when it comes.
// Not here: what is taken (snapshot.h).
#pragma once
#include <cstdint>

#include "shim/hsa/queues.h"

namespace klab::shim {

/// Hands on all of a batch, in order, each dispatch of it looked at.
void capture_packets(Queue& queue, const Packet* packets, std::uint64_t count, Writer write);
void capture_after_fork();

}  // namespace klab::shim
