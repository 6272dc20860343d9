// SPDX-License-Identifier: Apache-2.0
#include "worker/judge_variant.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace klab::worker {
namespace {

// A race seen once in twenty runs is then missed once in a thousand.
constexpr std::uint32_t kEnoughLaunches = 135;
constexpr double kBurstSeconds = 20;  // slow kernels rest on fewer launches, and the reason says how many
constexpr double kHopelessSeconds = 0.5;
constexpr double kBurstBatchNs = 20e6;
constexpr std::size_t kBurstLogBytes = 4u << 20, kBurstSteps = 4096;

/// What the given chunks of those that the baseline writes hold now, against what they should.
Status compare_now(Loaded& loaded, const Reference& r, const std::vector<std::size_t>& which, Found& found) {
  for (const std::size_t k : which) {
    KLAB_TRY(const auto now, loaded.download(r.written[k]));
    const auto& c = loaded.chunk(r.written[k]);
    found.add(loaded, r.comparator, c, r.expected[k], now, r.ignore[k]);
  }
  return {};
}

std::vector<std::size_t> all_of(const Reference& r) {
  std::vector<std::size_t> which(r.written.size());
  for (std::size_t k = 0; k < which.size(); ++k) which[k] = k;
  return which;
}

/// Names the first byte that lies outside what the baseline writes.
Result<std::string> describe_outside(Loaded& loaded, const ChunkList& stray) {
  if (stray.empty()) return std::string();
  KLAB_TRY(const auto before, loaded.pre(stray.front()));
  KLAB_TRY(const auto now, loaded.download(stray.front()));
  const auto d = validate::compare(before, now);
  const auto& c = loaded.chunk(stray.front());
  // From the start of the word, so that a person can read the value; of a redzone the very byte.
  const std::uint64_t byte = std::min<std::uint64_t>(d.first, c.size - 1);
  const std::uint64_t at = loaded.is_guard(stray.front()) ? byte : byte / validate::kElement * validate::kElement, n = std::min<std::uint64_t>(16, c.size - at);
  return fmt::format("it wrote outside what the baseline writes: {}: was {}, is {} ({} byte(s) in this chunk)",
                     loaded.place_name(c.region, c.offset + at), to_hex(std::span(before).subspan(at, n)),
                     to_hex(std::span(now).subspan(at, n)), d.count);
}

/// A launch that its check turned down: where, and when it can be made to happen again, the values. False when the
/// host, which compares in 64 bits, takes it after all.
Result<bool> describe_wrong(Loaded& loaded, const Reference& r, const OutcomeCheck& check,
                            const std::vector<std::vector<gpu::Step>>& launch, gpu::MemoryId log, std::size_t chunk,
                            bool still_there, Judged& j, const Deadline& second, const Deadline& deadline) {
  const std::string which =
      fmt::format("launch {} of it gave another result than the ones before", j.evidence.launches_checked);
  Found found;
  if (still_there) {
    KLAB_TRY_VOID(compare_now(loaded, r, all_of(r), found));
    if (found.wrong == 0) return false;
  }
  // The launches after it have written over what it left.
  std::vector<std::byte> entry(check.entry_bytes());
  for (std::uint32_t n = 0; n < kEnoughLaunches && found.wrong == 0 && second.left_s() > 0; ++n) {
    auto steps = launch[n % launch.size()];
    check.append(steps, log, 0);
    KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
    KLAB_TRY_VOID(loaded.gpu()->download(log, 0, entry));
    if (check.wrong(entry)) KLAB_TRY_VOID(compare_now(loaded, r, all_of(r), found));
  }
  j.evidence.wrong_launch = which;
  if (found.wrong != 0) {
    j.evidence.wrong_launch += ", " + found.sentence(loaded);
    j.differences = found.differences(loaded);
    return true;
  }
  const auto& c = loaded.chunk(check.chunks()[chunk]);
  j.evidence.wrong_launch += fmt::format(", in {} in the chunk at offset {}; it did not happen again",
                                         loaded.region_name(c.region), c.offset);
  return true;
}

/// Many more launches, as many as fit in a short time. Several go in one batch, and what their checks say into
/// a log that is read after it: a round trip to the host costs as much as a short kernel.
Status burst(Loaded& loaded, const Reference& r, const Variant& v, const OutcomeCheck& check, Judged& j,
             const Deadline& deadline) {
  const Restorer& restorer = *r.restorer;
  std::vector<std::vector<gpu::Step>> launch(restorer.images());
  for (std::size_t image = 0; image < launch.size(); ++image) {
    restorer.append(launch[image], image);
    v.append(launch[image]);
  }
  const std::uint64_t entry = std::max<std::uint64_t>(1, check.entry_bytes());
  const std::size_t most = std::clamp<std::size_t>(
      std::min(kBurstLogBytes / entry, kBurstSteps / (launch[0].size() + check.steps())), 1, kEnoughLaunches);
  KLAB_TRY(const auto log, loaded.gpu().allocate(entry * most));
  std::vector<std::byte> seen;
  std::size_t batch = 1;
  // What can never be `correct` is looked at for a moment only.
  const bool hopeless = j.evidence.varying_elements != 0 || !j.evidence.tolerance.empty() || !j.evidence.not_judged.empty();
  const Deadline second(std::min(hopeless ? kHopelessSeconds : kBurstSeconds, deadline.left_s() / 4));
  while (j.evidence.launches_checked < kEnoughLaunches && second.left_s() > 0) {
    const std::size_t n = std::min<std::size_t>(batch, kEnoughLaunches - j.evidence.launches_checked);
    std::vector<gpu::Step> steps;
    for (std::size_t i = 0; i < n; ++i) {
      const auto& one = launch[(j.evidence.launches_checked + i) % launch.size()];
      steps.insert(steps.end(), one.begin(), one.end());
      check.append(steps, log.id(), i * entry);
    }
    KLAB_TRY(const auto ran, loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
    seen.resize(n * entry);
    KLAB_TRY_VOID(loaded.gpu()->download(log.id(), 0, seen));
    for (std::size_t i = 0; i < n; ++i) {
      ++j.evidence.launches_checked;
      const auto wrong = check.wrong(std::span(seen).subspan(i * entry, check.entry_bytes()));
      if (!wrong) continue;
      if (j.own) {
        --j.evidence.launches_checked;
        j.evidence.not_judged =
            fmt::format("its result varies from launch to launch, and only {} of them could be judged as a whole",
                        j.evidence.launches_checked);
        return {};
      }
      KLAB_TRY(const bool stands, describe_wrong(loaded, r, check, launch, log.id(), *wrong, i + 1 == n, j, second,
                                                 deadline));
      if (stands) return {};
    }
    // Short enough that the time limit and a cancel are noticed.
    const double launches = kBurstBatchNs * static_cast<double>(n) / std::max(1.0, ran.wall_ns);
    batch = std::clamp<std::size_t>(static_cast<std::size_t>(std::min(launches, 1e6)), 1, most);
  }
  return {};
}

/// The checker's opinion of what the written chunks hold now.
Status ask_checker(Loaded& loaded, const Reference& r, Judged& j) {
  Image actual;
  for (const ChunkId id : r.written) {
    KLAB_TRY(auto bytes, loaded.download(id));
    actual.push_back(std::move(bytes));
  }
  const auto opinion = r.checker->ask(loaded, actual);
  if (!opinion)
    j.evidence.not_judged = opinion.error().what;
  else if (!opinion->accepts)
    j.evidence.checker_refused =
        "the checker turns it down" + (opinion->reason.empty() ? std::string() : ": " + opinion->reason);
  return {};
}

/// Under a tolerance a variant may be at most twice as far from a given reference as the captured kernel.
Status judge_precision(Loaded& loaded, const Reference& r, Judged& j) {
  constexpr double kTimes = 2;
  for (const auto& [region, values] : r.references) {
    validate::Error64 baseline, variant;
    const auto* range = r.comparator.layout().range_at(region, 0);
    for (const validate::Lane& lane : r.comparator.layout().floats(region)) {
      if (values.size() != lane.count)
        return fail(ErrorCode::usage,
                    fmt::format("the reference of {} has {} values; the region has {} elements of {}",
                                loaded.region_name(region), values.size(), lane.count,
                                range != nullptr ? validate::describe(*range) : std::string("unknown type")));
      for (std::size_t k = 0; k < r.written.size(); ++k) {
        const auto& c = loaded.chunk(r.written[k]);
        if (c.region != region) continue;
        KLAB_TRY(const auto now, loaded.download(r.written[k]));
        for (std::uint64_t i = lane.first_from(c.offset); i < lane.count; ++i) {
          const std::uint64_t at = lane.at(i);
          if (at >= c.offset + c.size || c.offset + c.size - at < size_of(lane.type)) break;
          baseline.add(values[i], value_of(lane.type, r.expected[k].data() + (at - c.offset)));
          variant.add(values[i], value_of(lane.type, now.data() + (at - c.offset)));
        }
      }
    }
    if (baseline.elements == 0)
      return fail(ErrorCode::usage, fmt::format("{} has a reference, but no floating-point elements that are written",
                                                loaded.region_name(region)),
                  "give its type: --type");
    if (!variant.within(baseline, kTimes))
      j.evidence.precision = fmt::format(
          "its error against the float64 reference of {} is {:.3g} (root mean square {:.3g}), more than twice the "
          "captured kernel's {:.3g} ({:.3g})",
          loaded.region_name(region), variant.largest, variant.root_mean_square(), baseline.largest,
          baseline.root_mean_square());
  }
  return {};
}

}  // namespace

void Found::add(const Loaded& loaded, const validate::Comparator& comparator, const Loaded::Chunk& c,
                const validate::ByteBuffer& expected, const validate::ByteBuffer& now, const validate::Mask& ignore) {
  auto it = std::find_if(regions.begin(), regions.end(), [&](const auto& x) { return x.region == c.region; });
  if (it == regions.end()) it = regions.insert(regions.end(), validate::RegionReport{.region = c.region});
  const std::uint64_t before = it->wrong;
  comparator.report(c.region, loaded.region_size(c.region), c.offset, expected, now, ignore, *it);
  wrong += it->wrong - before;
}

std::string Found::sentence(const Loaded& loaded) const {
  for (const auto& r : regions) {
    if (r.wrong == 0) continue;
    const std::uint64_t at = r.first_wrong.value_or(r.first_difference.value_or(0));
    const std::string where = loaded.place_name(r.region, at);
    if (r.type.empty()) return fmt::format("first in {}: expected {}, got {}", where, r.expected, r.actual);
    return fmt::format("first in {}, element {}: expected {}, got {}", where, r.place, r.expected_value, r.actual_value);
  }
  return {};
}

std::vector<replay::RegionDifference> Found::differences(const Loaded& loaded) const {
  std::vector<replay::RegionDifference> list;
  for (const auto& r : regions) {
    if (r.wrong == 0) continue;
    list.push_back({.region = r.region,
                    .name = loaded.region_label(r.region),
                    .differing_bytes = r.differing_bytes,
                    .first_offset = r.first_wrong.value_or(0),
                    .expected = r.expected,
                    .actual = r.actual,
                    .type = r.type,
                    .index = r.place,
                    .expected_value = r.expected_value,
                    .actual_value = r.actual_value,
                    .wrong = r.wrong,
                    .values = r.values,
                    .map = r.map.json()});
  }
  return list;
}

std::uint64_t Found::differing_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& r : regions) sum += r.differing_bytes;
  return sum;
}

Result<ChunkList> observe_writes(Loaded& loaded, const Variant& variant, const Deadline& deadline) {
  KLAB_TRY_VOID(loaded.gpu().run(variant.steps(), deadline.timeout_ns(kLaunchTimeout)));
  return loaded.make_pristine(deadline);
}

Result<Judged> judge_variant(Loaded& loaded, const Reference& r, const Variant& v, const Deadline& deadline) {
  Judged j;
  j.evidence.level = r.comparator.level();
  j.evidence.varying_elements = r.varying_elements;
  j.evidence.elements = r.written_elements;
  j.evidence.oracle = r.oracle;
  j.evidence.mutation_needed = r.mutation_needed;
  j.evidence.mutations_dropped = r.mutations_dropped;
  j.evidence.tolerance = r.tolerance_refused;
  for (const auto& m : r.ignore) j.masked_bytes += m.count();
  j.checked_bytes = loaded.captured_bytes() - std::min(j.masked_bytes, loaded.captured_bytes());
  if (r.written.empty())
    j.evidence.not_judged = "the baseline was not seen to write anything: there is nothing to compare";
  else
    j.evidence.not_judged = r.checker_failed;

  if (!r.unusable.empty()) {
    j.evidence.not_judged = r.unusable;
    return j;
  }
  KLAB_CHECK(r.restorer);
  replay::InputTried captured{.kind = "captured", .what = "the captured input", .result = "agrees"};
  std::vector<kernels::Hash> own;  // of the written chunks, as its first launch left them
  bool own_varies = false;
  for (std::size_t image = 0; image < r.images.size(); ++image) {
    KLAB_TRY_VOID(deadline.check("validating"));
    std::vector<gpu::Step> steps;
    r.restorer->append(steps, image);
    v.append(steps);
    if (r.blanker) r.blanker->append(steps);
    KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
    ++j.evidence.launches_checked;
    KLAB_TRY(const auto now, loaded.hash_all(deadline));
    ChunkList stray;
    std::vector<std::size_t> differing;
    for (ChunkId id = 0; id < loaded.chunk_count(); ++id) {
      if (now[id] != loaded.pre_hashes()[id]) j.written = merge(j.written, {id});
      const auto at = std::lower_bound(r.written.begin(), r.written.end(), id);
      if (at == r.written.end() || *at != id) {
        if (now[id] != loaded.pre_hashes()[id]) stray.push_back(id);
        continue;
      }
      const auto k = static_cast<std::size_t>(at - r.written.begin());
      if (now[id] != r.expected_hashes[k]) differing.push_back(k);
      if (image == 0)
        own.push_back(now[id]);
      else
        own_varies = own_varies || own[k] != now[id];
    }
    if (r.comparator.level() == validate::Level::custom) {
      if (!differing.empty() && j.evidence.not_judged.empty()) KLAB_TRY_VOID(ask_checker(loaded, r, j));
    } else {
      Found found;
      KLAB_TRY_VOID(compare_now(loaded, r, differing, found));
      for (const auto& region : found.regions) j.evidence.values.add(region.values);
      j.evidence.differing_bytes = std::max(j.evidence.differing_bytes, found.differing_bytes());
      if (found.wrong != 0) {
        j.evidence.wrong = found.wrong;
        j.evidence.where = found.sentence(loaded);
        j.differences = found.differences(loaded);
      }
    }
    if (image == 0 && !r.references.empty()) KLAB_TRY_VOID(judge_precision(loaded, r, j));
    KLAB_TRY(j.evidence.outside, describe_outside(loaded, stray));
    // What it should write is put back before the next image in any case.
    KLAB_TRY_VOID(loaded.reload(stray));
    if (j.wrong()) break;
  }
  if (!j.wrong() && !r.written.empty()) {
    if (r.check) {
      KLAB_TRY_VOID(burst(loaded, r, v, *r.check, j, deadline));
    } else if (own_varies) {
      if (j.evidence.not_judged.empty())
        j.evidence.not_judged = fmt::format(
            "its result varies from launch to launch, and only {} of them could be judged as a whole",
            j.evidence.launches_checked);
    } else if (auto check = OutcomeCheck::by_hash(loaded, r.written, own, r.ignore)) {
      j.own = std::move(*check);
      KLAB_TRY_VOID(burst(loaded, r, v, *j.own, j, deadline));
    }
  }
  KLAB_TRY(const auto left, put_back(r, loaded, deadline));
  for (const ChunkId id : left)
    if (!contains(r.written, id) && j.evidence.outside.empty())
      j.evidence.outside = fmt::format(
          "one of {} launches wrote outside what the baseline writes: {}", j.evidence.launches_checked,
          loaded.place_name(loaded.chunk(id).region, loaded.chunk(id).offset));
  captured.agrees = !j.wrong();
  if (j.wrong()) captured.result = "differs";
  j.inputs.push_back(std::move(captured));
  if (j.wrong()) return j;
  for (const MutatedCase& c : r.cases) {
    KLAB_TRY_VOID(deadline.check("validating on mutated inputs"));
    ++j.evidence.inputs_tried;
    KLAB_TRY_VOID(judge_mutated(loaded, r, c, v, j, deadline));
    if (!j.evidence.mutated_difference.empty() && j.evidence.mutation_is_bounded) break;
  }
  return j;
}

replay::Validation to_validation(const Judged& j, const Reference& r, const Loaded& loaded, std::uint32_t seed) {
  const auto judgement = validate::judge(j.evidence);
  replay::Validation v;
  v.correctness = judgement.correctness;
  v.reason = judgement.reason;
  if (!r.captured_difference.empty() && j.evidence.not_judged.empty())
    v.reason += "; " + r.captured_difference;
  v.level = to_string(r.comparator.level());
  v.checked_bytes = j.checked_bytes;
  v.differing_bytes = j.evidence.differing_bytes;
  if (v.differing_bytes == 0)
    for (const auto& d : j.differences) v.differing_bytes += d.differing_bytes;
  v.masked_bytes = j.masked_bytes;
  v.launches_checked = j.evidence.launches_checked;
  v.differences = j.differences;
  v.oracle = j.evidence.oracle;
  v.inputs_tried = j.evidence.inputs_tried;
  v.inputs = j.inputs;
  v.values = j.evidence.values;
  v.seed = seed;
  v.guarded_bytes = loaded.guarded_bytes();
  for (const auto& range : r.comparator.layout().ranges())
    v.types.push_back({{"region", range.region},
                       {"name", loaded.region_label(range.region)},
                       {"type", validate::describe(range)},
                       {"from", range.from}});
  for (const auto& [lane, t] : r.comparator.tolerances()) {
    Json one = t;
    one["region"] = r.comparator.layout().ranges()[lane.first].region;
    one["type"] = lane.second;
    v.tolerances.push_back(std::move(one));
  }
  return v;
}

}  // namespace klab::worker
