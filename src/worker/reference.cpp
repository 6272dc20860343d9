// SPDX-License-Identifier: Apache-2.0
#include "worker/reference.h"

#include <algorithm>
#include <cmath>

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

/// Tolerances of each lane: given, or by type and size of what is expected.
void set_tolerances(Reference& r, const Loaded& loaded, const replay::Checks& checks) {
  if (checks.level != validate::Level::numeric) return;
  std::map<std::pair<std::uint32_t, validate::ElementType>, validate::ValueStats> seen;
  for (std::size_t k = 0; k < r.written.size(); ++k) {
    const auto& c = loaded.chunk(r.written[k]);
    for (const validate::Lane& lane : r.comparator.layout().floats(c.region))
      (void)compare_values(lane, {}, c.offset, r.expected[k], r.expected[k], {}, seen[{lane.range, lane.type}]);
  }
  for (const auto& [lane, stats] : seen) {
    const std::uint32_t region = r.comparator.layout().ranges()[lane.first].region;
    const auto of_region = checks.tolerances.find(region);
    if (of_region != checks.tolerances.end())
      r.comparator.set_tolerance(lane.first, lane.second, of_region->second);
    else if (checks.tolerance)
      r.comparator.set_tolerance(lane.first, lane.second, *checks.tolerance);
    else
      r.comparator.set_tolerance(
          lane.first, lane.second,
          validate::default_tolerance(
              lane.second, std::sqrt(stats.sum_of_squares / static_cast<double>(std::max<std::uint64_t>(1, stats.elements)))));
  }
}

/// Where floating-point elements vary and a tolerance is to cover them, the captured kernel must pass it itself.
Status check_own_variation(Reference& r, Loaded& loaded, const Variant& baseline, const Deadline& deadline) {
  if (r.comparator.level() != validate::Level::numeric) return {};
  std::vector<std::size_t> varying;
  for (std::size_t k = 0; k < r.written.size(); ++k)
    if (r.varying[k].any()) varying.push_back(k);
  for (int run = 0; run < kReplays && !varying.empty() && r.unusable.empty(); ++run) {
    KLAB_TRY_VOID(run_steps(loaded, baseline.steps(), deadline));
    for (const std::size_t k : varying) {
      const auto& c = loaded.chunk(r.written[k]);
      KLAB_TRY(const auto now, loaded.download(r.written[k]));
      validate::RegionReport report;
      r.comparator.report(c.region, loaded.region_size(c.region), c.offset, r.expected[k], now, r.ignore[k], report);
      if (report.wrong == 0) continue;
      r.unusable = fmt::format(
          "the captured kernel's own results differ from run to run by more than the tolerance ({:.3g} absolute, {:.3g} "
          "relative in {}): ask for a larger one",
          report.values.max_absolute, report.values.max_relative, loaded.region_name(c.region));
      break;
    }
    KLAB_TRY_VOID(loaded.make_pristine(deadline));
  }
  return {};
}

/// Rounds the floating-point elements of a chunk to half their precision.
void halve(const validate::Layout& layout, const Loaded::Chunk& c, std::span<std::byte> bytes) {
  for (const validate::Lane& lane : layout.floats(c.region))
    for (std::uint64_t i = lane.first_from(c.offset); i < lane.count; ++i) {
      const std::uint64_t at = lane.at(i);
      if (at >= c.offset + bytes.size() || c.offset + bytes.size() - at < size_of(lane.type)) break;
      validate::halve_precision(lane.type, bytes.data() + (at - c.offset));
    }
}

/// Why the tolerance takes results of half the precision, with the figures.
std::string too_loose(const Reference& r, const Loaded& loaded) {
  validate::ValueStats rounded;
  std::string bounds;
  for (std::size_t k = 0; k < r.written.size(); ++k) {
    const auto& c = loaded.chunk(r.written[k]);
    validate::ByteBuffer bytes = r.expected[k];
    halve(r.comparator.layout(), c, bytes);
    for (const validate::Lane& lane : r.comparator.layout().floats(c.region)) {
      const auto t = r.comparator.tolerance(lane);
      (void)compare_values(lane, t, c.offset, r.expected[k], bytes, r.ignore[k], rounded);
      if (bounds.empty()) bounds = fmt::format("absolute {:.3g}, relative {:.3g}", t.absolute, t.relative);
    }
  }
  return fmt::format(
      "the tolerance ({}) is refused: results rounded to half of their precision pass it too (they are up to {:.3g} "
      "absolute and {:.3g} relative away); ask for a smaller one",
      bounds, rounded.max_absolute, rounded.max_relative);
}

}  // namespace

void use_check(const Reference& r, const Loaded& loaded, const ChunkList& chunks, validate::OracleInput& in) {
  if (r.comparator.level() != validate::Level::numeric) return;
  in.accepts = [&r, &loaded, &chunks, &in](std::size_t k, validate::ByteView outcome) {
    const auto& c = loaded.chunk(chunks[k]);
    return r.comparator.accepts(c.region, c.offset, in.expected[k], outcome, in.ignore[k]);
  };
  in.halve = [&r, &loaded, &chunks](std::size_t k, validate::ByteBuffer& bytes) {
    halve(r.comparator.layout(), loaded.chunk(chunks[k]), bytes);
  };
}

namespace {

validate::OracleInput oracle_input(const Reference& r, Loaded& loaded) {
  validate::OracleInput in;
  in.images = r.images;
  in.expected = r.expected;
  in.written = r.written_bytes;
  in.ignore = r.ignore;
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
      if (loaded.region_size(loaded.chunk(id).region) > source.size || offset >= source.size) break;
      auto bytes = loaded.pre(loaded.chunk_at(source.id, offset));
      if (!bytes) break;
      image.push_back(std::move(*bytes));
    }
    if (image.size() == r.written.size() && !image.empty()) in.inputs.push_back(std::move(image));
    if (in.inputs.size() == 4) break;
  }
  return in;
}

/// Which of Klab's bad variants the check turns down on the captured input.
void ask_oracle(Reference& r, Loaded& loaded) {
  validate::OracleInput in = oracle_input(r, loaded);
  use_check(r, loaded, r.written, in);
  if (r.checker) {
    in.inputs.clear();  // each question starts a program
    in.accepts_state = [&](const validate::OracleInput::State& outcome) {
      auto opinion = r.checker->ask(loaded, outcome);
      if (!opinion && r.checker_failed.empty()) r.checker_failed = opinion.error().what;
      return opinion && opinion->accepts;
    };
    // A checker that turns everything down would catch all of them.
    if (!in.accepts_state(r.expected) && r.checker_failed.empty())
      r.checker_failed = "the checker does not accept what the captured kernel itself leaves";
  }
  r.oracle = validate::run_oracle(in);
  const auto half = r.oracle.find(validate::kHalfPrecision);
  if (half != r.oracle.end() && !half->second) r.tolerance_refused = too_loose(r, loaded);
}

}  // namespace

validate::Layout layout_of(const Loaded& loaded, const replay::Checks& checks, std::uint32_t dispatch) {
  std::vector<std::uint64_t> sizes;
  for (const auto& r : loaded.dispatch().regions) sizes.push_back(r.size);
  const auto types = checks.types.find(dispatch);
  return validate::Layout(types == checks.types.end() ? std::vector<validate::TypedRange>{} : types->second, sizes);
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
    KLAB_TRY(const auto after, loaded.hash_all(deadline));
    ChunkList changed;
    for (ChunkId id = 0; id < loaded.chunk_count(); ++id)
      if (after[id] != loaded.pre_hashes()[id]) changed.push_back(id);
    r.written = merge(r.written, changed);
    KLAB_TRY(r.expected, download_all(loaded, r.written));
    KLAB_TRY_VOID(loaded.reload(changed));
    r.expected_hashes.clear();
    for (const ChunkId id : r.written) r.expected_hashes.push_back(after[id]);
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
  r.comparator = validate::Comparator(options.checks.level, layout_of(loaded, options.checks, options.dispatch));
  for (const std::string& n : r.comparator.layout().notes()) r.notes.push_back(n);
  set_tolerances(r, loaded, options.checks);
  r.ignore = r.varying;
  for (std::size_t k = 0; k < r.written.size(); ++k) {
    if (!r.varying[k].any()) continue;
    const auto& c = loaded.chunk(r.written[k]);
    if (r.comparator.level() == validate::Level::numeric)
      r.ignore[k].remove(r.comparator.float_bytes(c.region, c.offset, c.size));
    if (r.comparator.level() == validate::Level::custom) r.ignore[k] = validate::Mask(c.size);
    if (!r.ignore[k].any()) continue;
    validate::ByteBuffer blanked = r.expected[k];
    Blanker::blank(blanked, r.ignore[k]);
    r.expected_hashes[k] = kernels::hash_on_host(blanked);
  }
  if (options.full) KLAB_TRY_VOID(check_own_variation(r, loaded, baseline, deadline));
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
    const auto judged = it->second.covered.words();
    const auto dependent = r.dependent[k].words();
    for (std::size_t w = 0; w < dependent.size(); ++w) dependent[w] &= judged[w];
    r.dependent[k].remove(it->second.bytes.write_only);
    r.write_only[k] = it->second.bytes.write_only;
    r.write_only[k].remove(r.varying[k]);
    written.merge(it->second.bytes.written);
  }
  for (std::size_t k = 0; k < r.written.size(); ++k) {
    r.varying_elements += r.ignore[k].count_elements();
    r.written_elements += r.written_bytes[k].count_elements();
  }
  KLAB_TRY(r.captured_difference, against_capture(loaded, r));
  if (!options.full) return r;
  KLAB_TRY_VOID(make_images(r, loaded, baseline, deadline));
  for (const auto& [region, file] : options.checks.references) {
    if (region >= loaded.dispatch().regions.size())
      return fail(ErrorCode::usage, fmt::format("there is no region {} to have a reference", region));
    KLAB_TRY(r.references[region], validate::read_reference(file));
  }
  if (r.comparator.level() == validate::Level::custom) {
    auto checker = CustomChecker::create(loaded, options.checks.checker, options.checks.checker_limit_s,
                                         r.comparator.layout(), r.written, r.expected, "captured");
    if (checker)
      r.checker = std::move(*checker);
    else
      return fail(checker.error());
  }
  ask_oracle(r, loaded);
  return r;
}

Status put_on_device(Reference& r, Loaded& loaded) {
  std::vector<const Image*> images;
  for (const Image& i : r.images) images.push_back(&i);
  auto restorer = Restorer::create(loaded, r.written, images);
  if (!restorer && restorer.error().code == ErrorCode::out_of_memory && images.size() > 1) {
    r.notes.push_back(
        "nothing is poisoned: there is no room on the device for copies of what the kernel writes");
    r.images.resize(1);
    for (auto& m : r.write_only) m = validate::Mask(m.size());
    ask_oracle(r, loaded);
    images.resize(1);
    restorer = Restorer::create(loaded, r.written, images);
  }
  if (!restorer) return fail(restorer.error());
  r.restorer = std::move(*restorer);
  KLAB_TRY(r.blanker, Blanker::create(loaded, r.written, r.ignore));
  if (r.comparator.level() == validate::Level::custom) return {};
  const bool by_value = r.comparator.level() == validate::Level::numeric && r.comparator.layout().any_floats();
  auto check = by_value ? OutcomeCheck::by_value(loaded, r.written, r.expected, r.ignore, r.comparator)
                        : OutcomeCheck::by_hash(loaded, r.written, r.expected_hashes, r.ignore);
  if (check)
    r.check = std::move(*check);
  else if (check.error().code == ErrorCode::unsupported)
    r.unchecked_values = true;
  else if (check.error().code != ErrorCode::out_of_memory)
    return fail(check.error());
  if (!check) r.notes.push_back("timed launches are held against the variant's own first outcome: " + check.error().what);
  return {};
}

Result<ChunkList> put_back(const Reference& r, Loaded& loaded, const Deadline& deadline) {
  if (r.restorer && !r.written.empty()) {
    std::vector<gpu::Step> steps;
    r.restorer->append(steps, 0);
    KLAB_TRY_VOID(run_steps(loaded, steps, deadline));
  }
  return loaded.make_pristine(deadline);
}

Result<validate::ByteBuffer> mutated(const Loaded& loaded, ChunkId id, const validate::Mutation& mutation,
                                     const validate::Layout& layout) {
  KLAB_TRY(auto bytes, loaded.pre(id));
  const auto& c = loaded.chunk(id);
  validate::mutate(bytes, mutation, c.region, c.offset, loaded.relocator().pointer_words(bytes),
                   layout.floats(c.region));
  return bytes;
}

ChunkList chunks_of(const Loaded& loaded, const validate::Mutation& mutation) {
  ChunkList list;
  for (const auto& t : mutation.targets)
    if (t.region < loaded.dispatch().regions.size()) list = merge(list, loaded.chunks_of(t.region));
  return list;
}

Status apply_mutation(Loaded& loaded, const validate::Mutation& mutation, const validate::Layout& layout) {
  for (const ChunkId id : chunks_of(loaded, mutation)) {
    KLAB_TRY(const auto bytes, mutated(loaded, id, mutation, layout));
    KLAB_TRY_VOID(loaded.upload(id, bytes));
  }
  return {};
}

}  // namespace klab::worker
