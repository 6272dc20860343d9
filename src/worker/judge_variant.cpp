// SPDX-License-Identifier: Apache-2.0
#include "worker/judge_variant.h"

#include <algorithm>

#include <fmt/format.h>

namespace klab::worker {
namespace {

// A race seen once in twenty runs is then missed once in a thousand.
constexpr std::uint32_t kEnoughLaunches = 135;
constexpr double kBurstSeconds = 0.5;
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

/// Many more launches by hash, as many as fit in a short time.
Status burst(Loaded& loaded, const Reference& r, const Restorer& restorer, const Variant& v, Judged& j,
             const Deadline& deadline) {
  const ChunkList list = r.hashable();
  if (list.empty() || list.size() != r.written.size()) return {};
  KLAB_TRY(const auto hashes, loaded.prepare_hashes(list));
  std::vector<std::vector<gpu::Step>> steps(restorer.images());
  for (std::size_t image = 0; image < steps.size(); ++image) {
    restorer.append(steps[image], image);
    v.append(steps[image]);
    hashes.append(steps[image]);
  }
  const Deadline second(std::min(kBurstSeconds, deadline.left_s() / 4));
  while (j.evidence.launches_checked < kEnoughLaunches && second.left_s() > 0) {
    const std::size_t image = j.evidence.launches_checked % steps.size();
    KLAB_TRY_VOID(loaded.gpu().run(steps[image], deadline.timeout_ns(kLaunchTimeout)));
    KLAB_TRY(const auto now, loaded.read_hashes(hashes));
    ++j.evidence.launches_checked;
    if (now == r.expected_hashes) continue;
    Found found;
    KLAB_TRY_VOID(compare_now(loaded, r, found));
    j.evidence.wrong_launch =
        fmt::format("launch {} of it gave another result than the ones before", j.evidence.launches_checked);
    if (!found.regions.empty()) {
      j.evidence.wrong_launch += ", " + sentence(loaded, found.regions.front());
      j.differences = found.regions;
    }
    return {};
  }
  return {};
}

Status judge_case(Loaded& loaded, const MutatedCase& c, const Variant& v, Judged& j,
                  const Deadline& deadline) {
  KLAB_TRY_VOID(apply_mutation(loaded, c.mutation));
  KLAB_TRY_VOID(loaded.gpu().run(v.steps(), deadline.timeout_ns(kLaunchTimeout)));
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

  std::vector<const Image*> images;
  for (const Image& i : r.images) images.push_back(&i);
  KLAB_TRY(const auto restorer, Restorer::create(loaded, r.written, images));
  for (std::size_t image = 0; image < images.size(); ++image) {
    KLAB_TRY_VOID(deadline.check("validating"));
    std::vector<gpu::Step> steps;
    restorer.append(steps, image);
    v.append(steps);
    KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
    ++j.evidence.launches_checked;
    KLAB_TRY(const auto changed, loaded.changed(deadline));
    j.written = merge(j.written, changed);
    Found found;
    KLAB_TRY_VOID(compare_now(loaded, r, found));
    if (found.bytes != 0 && j.evidence.differing_bytes == 0) {
      j.evidence.differing_bytes = found.bytes;
      j.evidence.where = sentence(loaded, found.regions.front());
      j.differences = std::move(found.regions);
    }
    if (j.evidence.outside.empty()) {
      KLAB_TRY(j.evidence.outside, describe_outside(loaded, r, changed));
    }
    KLAB_TRY_VOID(loaded.reload(merge(changed, r.written)));
    if (!j.evidence.outside.empty() || j.evidence.differing_bytes != 0) break;
  }
  const bool wrong = !j.evidence.outside.empty() || j.evidence.differing_bytes != 0;
  if (!wrong) KLAB_TRY_VOID(burst(loaded, r, restorer, v, j, deadline));
  KLAB_TRY(const auto left, loaded.make_pristine(deadline));
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
