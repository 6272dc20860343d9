// SPDX-License-Identifier: Apache-2.0
// The disposable process: runs the baseline over poisons and mutations, and may die of it.

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "worker/judge_variant.h"
#include "worker/probe.h"
#include "worker/variant.h"

namespace klab::worker {
namespace {

// A launch over other inputs may loop for ever: it is given this many times what the captured input takes.
constexpr double kFirstLaunchSeconds = 60, kLaunchTimes = 50, kLeastSeconds = 2, kMostSeconds = 30;
double launch_seconds = kFirstLaunchSeconds;  // one thread, one job

Status launch_once(Loaded& loaded, const Variant& baseline, const Deadline& deadline) {
  KLAB_TRY_VOID(loaded.gpu().run(baseline.steps(), deadline.timeout_ns(launch_seconds)));
  return {};
}

ChunkList chunks_of(const Loaded& loaded, const PoisonUnit& unit) {
  ChunkList list;
  const ChunkId last = loaded.chunk_at(unit.region, unit.offset + unit.size - 1);
  for (ChunkId id = loaded.chunk_at(unit.region, unit.offset); id <= last; ++id) list.push_back(id);
  return list;
}

/// Bytes of a chunk that are poisoned: the unit's, but for words that point into the capture. A poisoned
/// pointer tells nothing but that the kernel follows it.
Result<validate::Mask> covered(const Loaded& loaded, ChunkId id, const PoisonUnit& unit) {
  const auto& c = loaded.chunk(id);
  validate::Mask mask(c.size);
  const std::uint64_t from = std::max(unit.offset, c.offset),
                      to = std::min(unit.offset + unit.size, c.offset + c.size);
  if (from < to) mask.set_range(from - c.offset, to - c.offset);
  KLAB_TRY(const auto pre, loaded.pre(id));
  mask.remove(loaded.relocator().pointer_words(pre));
  return mask;
}

/// Poisons a unit. Chunks without pointers and ragged ends are filled by the device, the rest is uploaded.
Status poison(Loaded& loaded, const PoisonUnit& unit, int which, const Deadline& deadline) {
  std::vector<gpu::Step> steps;
  for (const ChunkId id : chunks_of(loaded, unit)) {
    const auto& c = loaded.chunk(id);
    KLAB_TRY(const auto mask, covered(loaded, id, unit));
    if (mask.count() == c.size && c.size % 4 == 0) {
      const gpu::MemoryId memory = loaded.placed(unit.region).id;
      if (!steps.empty() && steps.back().to_offset + steps.back().size == c.offset)
        steps.back().size += c.size;
      else
        steps.push_back(gpu::Step::fill_of(memory, c.offset, c.size, validate::kPoison[which]));
      continue;
    }
    KLAB_TRY(auto bytes, loaded.pre(id));
    validate::apply_poison(bytes, mask, which, c.offset);
    KLAB_TRY_VOID(loaded.upload(id, bytes));
  }
  if (!steps.empty()) KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(launch_seconds)));
  return {};
}

Status write_record(ChunkId chunk, const ProbedChunk& p) {
  const std::uint32_t head[2] = {chunk, static_cast<std::uint32_t>(p.covered.size())};
  std::string record(reinterpret_cast<const char*>(head), sizeof head);
  for (const validate::Mask* m : {&p.covered, &p.bytes.written, &p.bytes.write_only})
    record.append(reinterpret_cast<const char*>(m->words().data()), m->words().size_bytes());
  return write_all(kProbeFd, std::as_bytes(std::span(record)));
}

Status probe_unit(Loaded& loaded, const Variant& baseline, const PoisonUnit& unit, const Deadline& deadline) {
  const ChunkList list = chunks_of(loaded, unit);
  std::map<ChunkId, validate::ByteBuffer> after[2];
  ChunkList touched;
  KLAB_TRY(const HashSet hashes, loaded.prepare_hashes(list));
  std::vector<gpu::Step> hash_steps;
  hashes.append(hash_steps);
  for (int which = 0; which < 2; ++which) {
    KLAB_TRY_VOID(loaded.make_pristine(deadline));
    KLAB_TRY_VOID(poison(loaded, unit, which, deadline));
    KLAB_TRY_VOID(loaded.gpu().run(hash_steps, deadline.timeout_ns(launch_seconds)));
    KLAB_TRY(const auto before, loaded.read_hashes(hashes));
    KLAB_TRY_VOID(launch_once(loaded, baseline, deadline));
    KLAB_TRY_VOID(loaded.gpu().run(hash_steps, deadline.timeout_ns(launch_seconds)));
    KLAB_TRY(const auto now, loaded.read_hashes(hashes));
    for (std::size_t k = 0; k < list.size(); ++k) {
      // A captured change that poison suppresses (a conditional writer) must be seen as judged too.
      if (before[k] == now[k] && !contains(loaded.captured_changes(), list[k])) continue;
      KLAB_TRY(after[which][list[k]], loaded.download(list[k]));
      touched = merge(touched, {list[k]});
    }
  }
  for (const ChunkId id : touched) {
    const auto& c = loaded.chunk(id);
    KLAB_TRY(const auto mask, covered(loaded, id, unit));
    for (int which = 0; which < 2; ++which) {
      if (after[which].count(id) != 0) continue;
      // Not written over this poison: what it held then is known.
      KLAB_TRY(auto bytes, loaded.pre(id));
      validate::apply_poison(bytes, mask, which, c.offset);
      after[which][id] = std::move(bytes);
    }
    KLAB_TRY_VOID(write_record(id, {mask, validate::classify(after[0][id], after[1][id], mask, c.offset)}));
  }
  return {};
}

Status try_mutation(Loaded& loaded, const Variant& baseline, const validate::Mutation& mutation,
                    const validate::Layout& layout, bool varies, const Deadline& deadline) {
  std::vector<kernels::Hash> results[2];
  for (auto& result : results) {
    KLAB_TRY_VOID(loaded.make_pristine(deadline));
    KLAB_TRY_VOID(apply_mutation(loaded, mutation, layout));
    KLAB_TRY_VOID(launch_once(loaded, baseline, deadline));
    KLAB_TRY(result, loaded.hash_all(deadline));
  }
  if (results[0] != results[1] && !varies) return fail(ErrorCode::unsupported, "the baseline varies on it");
  return {};
}

/// A variant on this dispatch; {"result": how it differs} when it does.
Status judge_here(Loaded& loaded, const Reference& reference, const replay::VariantCode& code, Json& answer,
                  const Deadline& deadline) {
  KLAB_TRY(const auto variant, make_variant(loaded, code));
  KLAB_TRY(const auto judged, judge_variant(loaded, reference, variant, deadline));
  const auto judgement = validate::judge(judged.evidence);
  if (judgement.correctness == validate::Correctness::incorrect) answer["result"] = judgement.reason;
  return {};
}

}  // namespace

Status run_probe(const Json& pending, const replay::Request& request, Loaded& loaded,
                 const Deadline& deadline) {
  KLAB_TRY(const auto baseline, make_variant(loaded, {}));
  std::string what;
  std::size_t next = 0;
  std::vector<validate::Mutation> mutations;
  bool varies = false;
  try {
    read_required(pending, "probe", what);
    read_required(pending, "from", next);
    read_optional(pending, "mutations", mutations);
    read_optional(pending, "varies", varies);
  } catch (const std::exception& e) {
    return fail(ErrorCode::invalid_data, e.what());
  }
  for (int warm = 0; warm < 2; ++warm) {  // the first one compiles
    const auto start = Deadline::Clock::now();
    KLAB_TRY_VOID(launch_once(loaded, baseline, deadline));
    const double took = std::chrono::duration<double>(Deadline::Clock::now() - start).count();
    if (warm == 1) launch_seconds = std::clamp(kLaunchTimes * took, kLeastSeconds, kMostSeconds);
  }
  const auto units = poison_units(loaded.dispatch());
  const auto layout = layout_of(loaded, request.checks, request.dispatch);
  std::optional<Reference> reference;
  if (what == "capture") {
    KLAB_TRY(reference, make_reference(loaded, baseline, {}, {.checks = request.checks, .dispatch = request.dispatch},
                                       deadline));
    KLAB_TRY_VOID(put_on_device(*reference, loaded));
  }
  const std::size_t count = what == "poison"    ? units.size()
                            : what == "capture" ? request.variants.size()
                                                : mutations.size();
  for (; next < count; ++next) {
    Json answer{{"task", next}};
    Status status;
    if (what == "poison")
      status = probe_unit(loaded, baseline, units[next], deadline);
    else if (what == "mutate")
      status = try_mutation(loaded, baseline, mutations[next], layout, varies, deadline);
    else
      status = judge_here(loaded, *reference, request.variants[next], answer, deadline);
    if (!status) answer["error"] = status.error().what;
    if (loaded.gpu().lost()) answer["leaving"] = true;
    KLAB_TRY_VOID(replay::send_message(replay::kWorkerFd, answer));
    if (loaded.gpu().lost()) return {};
  }
  return {};
}

}  // namespace klab::worker
