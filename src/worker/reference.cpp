// SPDX-License-Identifier: Apache-2.0
#include "worker/reference.h"

#include <algorithm>

#include <fmt/format.h>

#include "validate/oracle.h"
#include "validate/variation.h"

namespace klab::worker {
namespace {

constexpr int kReplays = 8;  // before anything is called deterministic

Status run_steps(Loaded& loaded, const std::vector<gpu::Step>& steps, const Deadline& deadline) {
  if (steps.empty()) return {};
  KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
  return {};
}

Result<Image> download_all(Loaded& loaded, const ChunkList& list) {
  Image image;
  for (const ChunkId id : list) {
    KLAB_TRY(auto bytes, loaded.download(id));
    image.push_back(std::move(bytes));
  }
  return image;
}

/// The captured outcome against ours; one sentence, or empty.
Result<std::string> against_capture(Loaded& loaded, const Reference& r) {
  std::uint64_t bytes = 0;
  std::string where;
  for (std::size_t k = 0; k < r.written.size(); ++k) {
    KLAB_TRY(const auto post, loaded.post(r.written[k]));
    if (post.empty()) continue;
    const auto d = validate::compare(post, r.expected[k], r.varying[k]);
    if (d.count == 0) continue;
    const auto& c = loaded.chunk(r.written[k]);
    if (bytes == 0) where = fmt::format("{} at offset {}", loaded.region_name(c.region), c.offset + d.first);
    bytes += d.count;
  }
  if (bytes == 0) return std::string();
  return fmt::format("the baseline gives {} byte(s) here that differ from the captured outcome, first in {}",
                     bytes, where);
}

/// Several runs from the pre-state: what varies, and whether more chunks are written than the first run
/// showed.
Result<ChunkList> find_variation(Reference& r, Loaded& loaded, const Variant& baseline,
                                 const Deadline& deadline) {
  KLAB_TRY(const auto restorer, Restorer::create(loaded, r.written, {&r.images[0]}));
  KLAB_TRY(const auto hashes, loaded.prepare_hashes(r.written));
  std::vector<validate::Variation> seen(r.written.size());
  for (std::size_t k = 0; k < r.written.size(); ++k) seen[k].add_run(r.expected[k]);
  std::vector<gpu::Step> steps;
  restorer.append(steps, 0);
  baseline.append(steps);
  hashes.append(steps);
  for (int run = 1; run < kReplays; ++run) {
    KLAB_TRY_VOID(deadline.check("replaying the baseline"));
    KLAB_TRY_VOID(run_steps(loaded, steps, deadline));
    KLAB_TRY(const auto now, loaded.read_hashes(hashes));
    for (std::size_t k = 0; k < r.written.size(); ++k) {
      if (now[k] == r.expected_hashes[k]) continue;
      KLAB_TRY(const auto bytes, loaded.download(r.written[k]));
      seen[k].add_run(bytes);
    }
  }
  KLAB_TRY(const auto changed, loaded.changed(deadline));
  KLAB_TRY_VOID(loaded.reload(merge(changed, r.written)));
  for (std::size_t k = 0; k < r.written.size(); ++k) r.varying[k] = seen[k].varying();
  ChunkList more;
  for (const ChunkId id : changed)
    if (!contains(r.written, id)) more.push_back(id);
  return more;
}

/// Elements that the proof replay of this capture saw vary: eight runs here may miss what it caught.
void add_proven_variation(Reference& r, const Loaded& loaded) {
  for (const auto& range : loaded.dispatch().proof.varying) {
    for (std::uint64_t at = range.offset; at < range.offset + range.size; ++at) {
      const ChunkId id = loaded.chunk_at(range.region, at);
      const auto it = std::lower_bound(r.written.begin(), r.written.end(), id);
      if (it == r.written.end() || *it != id) continue;
      auto& mask = r.varying[static_cast<std::size_t>(it - r.written.begin())];
      if (mask.size() == 0) mask = validate::Mask(loaded.chunk(id).size);
      mask.set(at - loaded.chunk(id).offset);
    }
  }
}

/// Images whose write-only bytes are poison; bytes that turn out to matter are taken out again.
Status make_images(Reference& r, Loaded& loaded, const Variant& baseline, const Deadline& deadline) {
  for (int round = 0; round < 4; ++round) {
    const bool any =
        std::any_of(r.write_only.begin(), r.write_only.end(), [](const auto& m) { return m.any(); });
    r.images.resize(1);
    if (!any) return {};
    for (int which = 0; which < 2; ++which) {
      Image image = r.images[0];
      for (std::size_t k = 0; k < r.written.size(); ++k)
        validate::apply_poison(image[k], r.write_only[k], which, loaded.chunk(r.written[k]).offset);
      r.images.push_back(std::move(image));
    }
    KLAB_TRY(const auto restorer, Restorer::create(loaded, r.written, {&r.images[1], &r.images[2]}));
    bool clean = true;
    for (std::size_t which = 0; which < 2; ++which) {
      std::vector<gpu::Step> steps;
      restorer.append(steps, which);
      baseline.append(steps);
      KLAB_TRY_VOID(run_steps(loaded, steps, deadline));
      KLAB_TRY(const auto got, download_all(loaded, r.written));
      for (std::size_t k = 0; k < r.written.size(); ++k) {
        if (validate::compare(r.expected[k], got[k], r.varying[k]).count == 0) continue;
        clean = false;
        // Which poisoned byte it came from is not known: the whole chunk is left as captured.
        r.write_only[k] = validate::Mask(got[k].size());
      }
    }
    KLAB_TRY_VOID(loaded.make_pristine(deadline));
    if (clean) return {};
  }
  r.images.resize(1);
  for (auto& m : r.write_only) m = validate::Mask(m.size());
  r.notes.push_back("nothing is poisoned: the baseline's result depended on what it overwrites");
  return {};
}

validate::OracleInput oracle_input(const Reference& r, Loaded& loaded) {
  validate::OracleInput in;
  in.images = r.images;
  in.expected = r.expected;
  in.written = r.written_bytes;
  in.ignore = r.varying;
  // Inputs to copy: the same chunk positions of regions that are not written.
  const auto& regions = loaded.dispatch().regions;
  for (const auto& source : regions) {
    const auto list = loaded.chunks_of(source.id);
    if (list.empty() ||
        std::any_of(list.begin(), list.end(), [&](ChunkId id) { return contains(r.written, id); }))
      continue;
    Image image;
    for (const ChunkId id : r.written) {
      const std::uint64_t offset = loaded.chunk(id).offset;
      if (regions[loaded.chunk(id).region].size > source.size || offset >= source.size) break;
      auto bytes = loaded.pre(loaded.chunk_at(source.id, offset));
      if (!bytes) break;
      image.push_back(std::move(*bytes));
    }
    if (image.size() == r.written.size() && !image.empty()) in.inputs.push_back(std::move(image));
    if (in.inputs.size() == 4) break;
  }
  return in;
}

}  // namespace

ChunkList Reference::hashable() const {
  ChunkList list;
  for (std::size_t k = 0; k < written.size(); ++k)
    if (!varying[k].any()) list.push_back(written[k]);
  return list;
}

Result<Reference> make_reference(Loaded& loaded, const Variant& baseline, const Probed& probed,
                                 const ReferenceOptions& options, const Deadline& deadline) {
  Reference r;
  KLAB_TRY_VOID(loaded.make_pristine(deadline));
  r.written = loaded.captured_changes();
  for (const auto& [id, p] : probed.chunks)
    if (id < loaded.chunk_count() && p.bytes.written.any()) r.written = merge(r.written, {id});
  for (int round = 0;; ++round) {
    KLAB_TRY_VOID(run_steps(loaded, baseline.steps(), deadline));
    KLAB_TRY(const auto changed, loaded.changed(deadline));
    r.written = merge(r.written, changed);
    KLAB_TRY(r.expected, download_all(loaded, r.written));
    KLAB_TRY_VOID(loaded.reload(changed));
    r.expected_hashes.clear();
    for (const auto& bytes : r.expected) r.expected_hashes.push_back(kernels::hash_on_host(bytes));
    Image pristine;
    for (const ChunkId id : r.written) {
      KLAB_TRY(auto bytes, loaded.pre(id));
      pristine.push_back(std::move(bytes));
    }
    r.images.assign(1, std::move(pristine));
    r.varying.assign(r.written.size(), {});
    if (!options.full) break;
    KLAB_TRY(const auto more, find_variation(r, loaded, baseline, deadline));
    if (more.empty() || round == 3) break;
    r.written = merge(r.written, more);
  }
  if (options.full) add_proven_variation(r, loaded);
  r.written_bytes.resize(r.written.size());
  r.write_only.resize(r.written.size());
  r.dependent.resize(r.written.size());
  for (std::size_t k = 0; k < r.written.size(); ++k) {
    auto& written = r.written_bytes[k];
    written = validate::differing(r.images[0][k], r.expected[k]);
    written.merge(r.varying[k]);
    r.write_only[k] = validate::Mask(written.size());
    r.dependent[k] = validate::Mask(written.size());
    const auto it = probed.chunks.find(r.written[k]);
    if (it == probed.chunks.end() || it->second.covered.size() != written.size()) continue;
    r.dependent[k] = written;
    r.dependent[k].merge(it->second.bytes.written);
    validate::Mask judged = it->second.covered, outside(written.size());
    for (std::size_t i = 0; i < written.size(); ++i)
      if (!judged.test(i)) outside.set(i);
    r.dependent[k].remove(outside);
    r.dependent[k].remove(it->second.bytes.write_only);
    r.write_only[k] = it->second.bytes.write_only;
    r.write_only[k].remove(r.varying[k]);
    written.merge(it->second.bytes.written);
  }
  for (std::size_t k = 0; k < r.written.size(); ++k) {
    r.varying_elements += r.varying[k].count_elements();
    r.written_elements += r.written_bytes[k].count_elements();
  }
  KLAB_TRY(r.captured_difference, against_capture(loaded, r));
  if (!options.full) return r;
  KLAB_TRY_VOID(make_images(r, loaded, baseline, deadline));
  r.oracle = validate::run_oracle(oracle_input(r, loaded));
  return r;
}

Status apply_mutation(Loaded& loaded, const validate::Mutation& mutation) {
  for (const ChunkId id : loaded.chunks_of(mutation.region)) {
    KLAB_TRY(auto bytes, loaded.pre(id));
    validate::mutate(bytes, mutation, loaded.chunk(id).offset, loaded.relocator().pointer_words(bytes));
    KLAB_TRY_VOID(loaded.upload(id, bytes));
  }
  return {};
}

}  // namespace klab::worker
