// SPDX-License-Identifier: Apache-2.0
#include "worker/judge_variant.h"

#include <algorithm>

#include <fmt/format.h>

namespace klab::worker {
namespace {

// A race seen once in twenty runs is then missed once in a thousand.
constexpr std::uint32_t kEnoughLaunches = 135;
constexpr double kBurstSeconds = 0.5;
constexpr double kBurstBatchNs = 20e6;
constexpr std::size_t kBurstLogBytes = 4u << 20, kBurstSteps = 4096;
constexpr std::size_t kShown = 16;  // bytes of a difference

std::string hex_at(const validate::ByteBuffer& bytes, std::uint64_t first) {
  // From the start of the element, so that a person can read the value.
  const std::uint64_t from = first / validate::kElement * validate::kElement;
  return to_hex(std::span(bytes).subspan(from, std::min<std::uint64_t>(kShown, bytes.size() - from)));
}

struct Found {
  std::uint64_t bytes = 0;
  std::vector<replay::RegionDifference> regions;
};

/// What the chunks hold now, against what they should.
Status compare_now(Loaded& loaded, const Reference& r, Found& found) {
  for (std::size_t k = 0; k < r.written.size(); ++k) {
    KLAB_TRY(const auto now, loaded.download(r.written[k]));
    const auto d = validate::compare(r.expected[k], now, r.varying[k]);
    if (d.count == 0) continue;
    const auto& c = loaded.chunk(r.written[k]);
    found.bytes += d.count;
    if (found.regions.empty() || found.regions.back().region != c.region) {
      const std::uint64_t first = d.first / validate::kElement * validate::kElement;
      found.regions.push_back({.region = c.region,
                               .name = loaded.dispatch().regions[c.region].name,
                               .first_offset = c.offset + first,
                               .expected = hex_at(r.expected[k], d.first),
                               .actual = hex_at(now, d.first)});
    }
    found.regions.back().differing_bytes += d.count;
  }
  return {};
}

/// As compare_now(), but what is right goes no further than the device. Call after a batch with r.check's
/// steps.
Status compare_on_device(Loaded& loaded, const Reference& r, Found& found) {
  if (!r.check) return compare_now(loaded, r, found);
  KLAB_TRY(const std::uint64_t bytes, r.check->differing(loaded));
  if (bytes != 0 || r.check->chunks().size() != r.written.size()) return compare_now(loaded, r, found);
  return {};
}

/// Names the first byte that lies outside what the baseline writes.
Result<std::string> describe_outside(Loaded& loaded, const Reference& r, const ChunkList& changed) {
  for (const ChunkId id : changed) {
    if (contains(r.written, id)) continue;
    KLAB_TRY(const auto before, loaded.pre(id));
    KLAB_TRY(const auto now, loaded.download(id));
    const auto d = validate::compare(before, now);
    const auto& c = loaded.chunk(id);
    return fmt::format("it wrote outside what the baseline writes: {} at offset {}: was {}, is {}",
                       loaded.region_name(c.region), c.offset + d.first, hex_at(before, d.first),
                       hex_at(now, d.first));
  }
  return std::string();
}

std::string sentence(Loaded& loaded, const replay::RegionDifference& d) {
  return fmt::format("first in {} at offset {}: expected {}, got {}", loaded.region_name(d.region),
                     d.first_offset, d.expected, d.actual);
}

/// A launch whose hashes were wrong: where, and when it can be made to happen again, the bytes.
Status describe_wrong(Loaded& loaded, const Reference& r, const std::vector<std::vector<gpu::Step>>& launch,
                      const HashSet& hashes, std::span<const kernels::Hash> seen, bool still_there, Judged& j,
                      const Deadline& second, const Deadline& deadline) {
  j.evidence.wrong_launch =
      fmt::format("launch {} of it gave another result than the ones before", j.evidence.launches_checked);
  Found found;
  if (still_there) KLAB_TRY_VOID(compare_now(loaded, r, found));
  // The launches after it have written over what it left.
  for (std::uint32_t n = 0; n < kEnoughLaunches && found.regions.empty() && second.left_s() > 0; ++n) {
    KLAB_TRY_VOID(loaded.gpu().run(launch[n % launch.size()], deadline.timeout_ns(kLaunchTimeout)));
    KLAB_TRY(const auto now, loaded.read_hashes(hashes));
    if (now != r.expected_hashes) KLAB_TRY_VOID(compare_now(loaded, r, found));
  }
  if (!found.regions.empty()) {
    j.evidence.wrong_launch += ", " + sentence(loaded, found.regions.front());
    j.differences = found.regions;
    return {};
  }
  for (std::size_t k = 0; k < seen.size(); ++k) {
    if (seen[k] == r.expected_hashes[k]) continue;
    const auto& c = loaded.chunk(hashes.chunks()[k]);
    j.evidence.wrong_launch += fmt::format(", in {} in the chunk at offset {}; it did not happen again",
                                           loaded.region_name(c.region), c.offset);
    break;
  }
  return {};
}

/// Many more launches by hash, as many as fit in a short time. Several go in one batch, and their hashes into
/// a log that is read after it: a round trip to the host costs as much as a short kernel.
Status burst(Loaded& loaded, const Reference& r, const Variant& v, Judged& j, const Deadline& deadline) {
  const Restorer& restorer = *r.restorer;
  const ChunkList list = r.hashable();
  if (list.empty() || list.size() != r.written.size()) return {};
  KLAB_TRY(const auto hashes, loaded.prepare_hashes(list));
  std::vector<std::vector<gpu::Step>> launch(restorer.images());
  for (std::size_t image = 0; image < launch.size(); ++image) {
    restorer.append(launch[image], image);
    v.append(launch[image]);
    hashes.append(launch[image]);
  }
  const std::size_t most = std::clamp<std::size_t>(
      std::min(kBurstLogBytes / hashes.result_bytes(), kBurstSteps / (launch[0].size() + 1)), 1,
      kEnoughLaunches);
  KLAB_TRY(const auto log, loaded.gpu().allocate(hashes.result_bytes() * most));
  std::vector<kernels::Hash> seen;
  std::size_t batch = 1;
  const Deadline second(std::min(kBurstSeconds, deadline.left_s() / 4));
  while (j.evidence.launches_checked < kEnoughLaunches && second.left_s() > 0) {
    const std::size_t n = std::min<std::size_t>(batch, kEnoughLaunches - j.evidence.launches_checked);
    std::vector<gpu::Step> steps;
    for (std::size_t i = 0; i < n; ++i) {
      const auto& one = launch[(j.evidence.launches_checked + i) % launch.size()];
      steps.insert(steps.end(), one.begin(), one.end());
      steps.push_back(gpu::Step::copy_of(log.id(), i * hashes.result_bytes(), hashes.results(), 0,
                                         hashes.result_bytes()));
    }
    KLAB_TRY(const auto ran, loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
    seen.resize(n * list.size());
    KLAB_TRY_VOID(loaded.gpu()->download(log.id(), 0, std::as_writable_bytes(std::span(seen))));
    for (std::size_t i = 0; i < n; ++i) {
      ++j.evidence.launches_checked;
      const auto of_this = std::span<const kernels::Hash>(seen).subspan(i * list.size(), list.size());
      if (std::equal(of_this.begin(), of_this.end(), r.expected_hashes.begin(), r.expected_hashes.end()))
        continue;
      return describe_wrong(loaded, r, launch, hashes, of_this, i + 1 == n, j, second, deadline);
    }
    // Short enough that the time limit and a cancel are noticed.
    const double launches = kBurstBatchNs * static_cast<double>(n) / std::max(1.0, ran.wall_ns);
    batch = std::clamp<std::size_t>(static_cast<std::size_t>(std::min(launches, 1e6)), 1, most);
  }
  return {};
}

Status judge_case(Loaded& loaded, const MutatedCase& c, const Variant& v, Judged& j,
                  const Deadline& deadline) {
  std::vector<gpu::Step> steps;
  if (c.states)
    c.states->append(steps, 0);
  else
    KLAB_TRY_VOID(apply_mutation(loaded, c.mutation));
  v.append(steps);
  KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
  KLAB_TRY(const auto after, loaded.hash_all(deadline));
  ++j.evidence.launches_checked;
  for (ChunkId id = 0; id < loaded.chunk_count() && j.evidence.mutated_difference.empty(); ++id) {
    if (after[id] == c.after[id]) continue;
    const auto& chunk = loaded.chunk(id);
    const auto it = c.expected.find(id);
    if (it == c.expected.end()) {
      j.evidence.mutated_difference = fmt::format("on {} it wrote to {}, which the baseline does not",
                                                  to_string(c.mutation), loaded.region_name(chunk.region));
      break;
    }
    KLAB_TRY(const auto now, loaded.download(id));
    const auto d = validate::compare(it->second, now);
    replay::RegionDifference shown{
        .region = chunk.region,
        .name = loaded.dispatch().regions[chunk.region].name,
        .differing_bytes = d.count,
        .first_offset = chunk.offset + d.first / validate::kElement * validate::kElement,
        .expected = hex_at(it->second, d.first),
        .actual = hex_at(now, d.first)};
    j.evidence.mutated_difference =
        fmt::format("it differs on {}: {}", to_string(c.mutation), sentence(loaded, shown));
    if (j.differences.empty()) j.differences.push_back(std::move(shown));
  }
  if (c.states) {
    steps.clear();
    c.states->append(steps, 1);
    KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
  }
  KLAB_TRY_VOID(loaded.make_pristine(deadline));
  return {};
}

}  // namespace

Result<ChunkList> observe_writes(Loaded& loaded, const Variant& variant, const Deadline& deadline) {
  KLAB_TRY_VOID(loaded.gpu().run(variant.steps(), deadline.timeout_ns(kLaunchTimeout)));
  return loaded.make_pristine(deadline);
}

Result<Judged> judge_variant(Loaded& loaded, const Reference& r, const Variant& v, const Deadline& deadline) {
  Judged j;
  j.evidence.varying_elements = r.varying_elements;
  j.evidence.elements = r.written_elements;
  j.evidence.oracle = r.oracle;
  j.evidence.mutation_needed = r.mutation_needed;
  j.evidence.mutations_dropped = r.mutations_dropped;
  for (const auto& m : r.varying) j.masked_bytes += m.count();
  j.checked_bytes = loaded.captured_bytes() - j.masked_bytes;
  if (r.written.empty())
    j.evidence.not_judged = "the baseline was not seen to write anything: there is nothing to compare";

  KLAB_CHECK(r.restorer);
  for (std::size_t image = 0; image < r.images.size(); ++image) {
    KLAB_TRY_VOID(deadline.check("validating"));
    std::vector<gpu::Step> steps;
    r.restorer->append(steps, image);
    v.append(steps);
    if (r.check) r.check->append(steps);
    KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
    ++j.evidence.launches_checked;
    KLAB_TRY(const auto changed, loaded.changed(deadline));
    j.written = merge(j.written, changed);
    Found found;
    KLAB_TRY_VOID(compare_on_device(loaded, r, found));
    if (found.bytes != 0 && j.evidence.differing_bytes == 0) {
      j.evidence.differing_bytes = found.bytes;
      j.evidence.where = sentence(loaded, found.regions.front());
      j.differences = std::move(found.regions);
    }
    if (j.evidence.outside.empty()) {
      KLAB_TRY(j.evidence.outside, describe_outside(loaded, r, changed));
    }
    // What it should write is put back before the next image in any case.
    ChunkList stray;
    for (const ChunkId id : changed)
      if (!contains(r.written, id)) stray.push_back(id);
    KLAB_TRY_VOID(loaded.reload(stray));
    if (!j.evidence.outside.empty() || j.evidence.differing_bytes != 0) break;
  }
  const bool wrong = !j.evidence.outside.empty() || j.evidence.differing_bytes != 0;
  if (!wrong) KLAB_TRY_VOID(burst(loaded, r, v, j, deadline));
  KLAB_TRY(const auto left, put_back(r, loaded, deadline));
  for (const ChunkId id : left)
    if (!contains(r.written, id) && j.evidence.outside.empty())
      j.evidence.outside = fmt::format(
          "one of {} launches wrote outside what the baseline writes: {}, chunk at {}",
          j.evidence.launches_checked, loaded.region_name(loaded.chunk(id).region), loaded.chunk(id).offset);
  if (wrong || !j.evidence.wrong_launch.empty() || !j.evidence.outside.empty()) return j;
  for (const MutatedCase& c : r.cases) {
    KLAB_TRY_VOID(deadline.check("validating on mutated inputs"));
    ++j.evidence.inputs_tried;
    KLAB_TRY_VOID(judge_case(loaded, c, v, j, deadline));
    if (!j.evidence.mutated_difference.empty()) break;
  }
  return j;
}

replay::Validation to_validation(const Judged& j, const Reference& r) {
  const auto judgement = validate::judge(j.evidence);
  replay::Validation v;
  v.correctness = judgement.correctness;
  v.reason = judgement.reason;
  if (!r.captured_difference.empty() && j.evidence.not_judged.empty())
    v.reason += "; " + r.captured_difference;
  v.checked_bytes = j.checked_bytes;
  v.differing_bytes = j.evidence.differing_bytes;
  if (v.differing_bytes == 0)
    for (const auto& d : j.differences) v.differing_bytes += d.differing_bytes;
  v.masked_bytes = j.masked_bytes;
  v.launches_checked = j.evidence.launches_checked;
  v.differences = j.differences;
  v.oracle = j.evidence.oracle;
  v.inputs_tried = j.evidence.inputs_tried;
  return v;
}

}  // namespace klab::worker
