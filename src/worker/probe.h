// SPDX-License-Identifier: Apache-2.0
// Risky runs of the baseline, over poisoned or mutated inputs, in a process of their own: a fault there costs
// nothing. Not here: what poisons and mutations are (validate/).
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "replay/protocol.h"
#include "validate/mutate.h"
#include "validate/poison.h"
#include "worker/loaded.h"

namespace klab::worker {

/// A range of a region that is poisoned as one: what a binding shows, or a region that pointers reach.
struct PoisonUnit {
  std::uint32_t region = 0;
  std::uint64_t offset = 0, size = 0;
};
/// Everything that the dispatch could write: storage bindings, and regions without one.
std::vector<PoisonUnit> poison_units(const bundle::Dispatch& dispatch);

struct ProbedChunk {
  validate::Mask covered;  // bytes that a poison run judged
  validate::Classified bytes;
};

struct Probed {
  std::map<ChunkId, ProbedChunk> chunks;  // those with a written byte, or covered ones of `changed` chunks
  std::vector<std::string> notes;         // units that were dropped, and why
};

/// Runs the baseline over both poisons of each unit. Units in which it faults are dropped, with a note.
/// Errors: only those that no probe can be had at all (the process does not start, budget spent).
Result<Probed> probe_poison(const replay::Request& request, const Deadline& deadline);

/// Whether the baseline survives each mutation, and (unless it `varies` on its own input) gives the same result twice.
Result<std::vector<bool>> probe_mutations(const replay::Request& request,
                                          const std::vector<validate::Mutation>& mutations, bool varies,
                                          const Deadline& deadline);

/// Judges the request's variants on another dispatch of the bundle, in a process of its own: its memory may lie at
/// the same addresses. One text for each variant: empty where it agrees. Errors: that dispatch cannot be replayed.
Result<std::vector<std::string>> probe_capture(const replay::Request& request, std::uint32_t dispatch,
                                               const Deadline& deadline);

/// The other side: answers one probing message on the socket. `pending` is what it received.
Status run_probe(const Json& pending, const replay::Request& request, Loaded& loaded,
                 const Deadline& deadline);

/// fd of the shared file that a probe writes its masks to.
inline constexpr int kProbeFd = 4;

}  // namespace klab::worker
