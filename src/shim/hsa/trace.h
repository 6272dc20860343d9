// SPDX-License-Identifier: Apache-2.0
// Packets of a program in trace mode: a row for each dispatch, with the device's own times.
// Not here: sending rows (common/link.h).
#pragma once
#include <cstdint>

#include "shim/hsa/queues.h"

namespace klab::shim {

/// Hands on all of a batch. Each dispatch ends in a signal of ours; the program's own goes down right after,
/// with the same times.
void trace_packets(Queue& queue, const Packet* packets, std::uint64_t count, Writer write);
/// Waits (bounded) for dispatches that still run, and sends all rows.
void flush_trace();
/// The runtime goes, and its signals with it.
void forget_trace();
void trace_after_fork();

}  // namespace klab::shim
