// SPDX-License-Identifier: Apache-2.0
#include "measure/comparison.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace klab::measure {
namespace {

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

/// Where two copies of one variant differ by more, nothing is so close that it could be called the same.
constexpr double kMostEquivalent = 0.1;

std::string words(const Interval& i, double delta, Verdict v) {
  const std::string about = fmt::format("the interval of B's time over A's is {:.4f} to {:.4f}", i.low, i.high);
  switch (v) {
    case Verdict::faster:
      return fmt::format("{}, below 1 by more than {}", about, percent(delta));
    case Verdict::slower:
      return fmt::format("{}, above 1 by more than {}", about, percent(delta));
    case Verdict::equivalent:
      return fmt::format("{}, within {} of 1", about, percent(delta));
    default:
      if (delta > kMostEquivalent && i.low >= 1 - delta && i.high <= 1 + delta)
        return fmt::format("{}: two copies of A differ by up to {} here, too much for any claim", about, percent(delta));
      return fmt::format("{}: it reaches over a boundary at {} from 1", about, percent(delta));
  }
}

std::uint32_t placements_done(std::span<const Block> blocks) {
  std::uint32_t n = 0;
  for (const Block& b : blocks) n = std::max(n, b.placement + 1);
  return n;
}

bool decisive(Verdict v) { return v == Verdict::faster || v == Verdict::slower || v == Verdict::equivalent; }

/// Clocks may have made the difference, or hidden one: then times alone claim nothing.
void ask_clocks(Conclusion& c, const Design& design) {
  if (!c.cycles || !decisive(c.verdict)) return;
  const Verdict by_cycles = decide(*c.cycles, design.delta());
  if (!decisive(by_cycles) || by_cycles == c.verdict) return;
  c.reason = fmt::format(
      "by time B is {}, by cycles of the processors' clock it is {} ({:.4f} to {:.4f}): the clock was not the same for "
      "both",
      to_string(c.verdict), to_string(by_cycles), c.cycles->low, c.cycles->high);
  c.verdict = Verdict::clock_dependent;
  c.headline.clear();
}

Conclusion at_look(const Design& design, std::span<const Block> blocks, std::uint32_t placements, double alpha) {
  Conclusion c;
  c.placements = placements;
  for (const Block& b : blocks) {
    if (b.placement >= placements) continue;
    ++c.blocks;
    if (b.dropped.empty()) continue;
    ++c.blocks_dropped;
    ++c.dropped[b.dropped];
  }
  const Grouped values = counted(blocks, placements);
  c.interval = ratio_interval(values, alpha, design.seed);
  const Grouped cycles = counted(blocks, placements, true);
  const auto size = [](const Grouped& g) {
    std::size_t n = 0;
    for (const auto& one : g) n += one.size();
    return n;
  };
  if (!cycles.empty() && size(cycles) == size(values)) c.cycles = ratio_interval(cycles, alpha, design.seed);
  if (c.blocks_dropped > design.most_dropped * c.blocks) {
    c.verdict = Verdict::unstable;
    std::string why;
    for (const auto& [reason, n] : c.dropped) why += fmt::format("{}{} ({})", why.empty() ? "" : ", ", reason, n);
    c.reason = fmt::format("{} of {} blocks had to be dropped: {}", c.blocks_dropped, c.blocks, why);
    return c;
  }
  if (values.size() < kFewestPlacements || !c.interval.bounded()) {
    c.reason = fmt::format("{} placement(s) are too few for an interval; {} are needed", values.size(), kFewestPlacements);
    return c;
  }
  c.verdict = decide(c.interval, design.delta());
  c.reason = words(c.interval, design.delta(), c.verdict);
  if (c.verdict == Verdict::faster) c.headline = fmt::format("at least {} less time", percent(1 - c.interval.high));
  if (c.verdict == Verdict::slower) c.headline = fmt::format("at least {} more time", percent(c.interval.low - 1));
  ask_clocks(c, design);
  return c;
}

}  // namespace

std::vector<Look> looks_for(std::uint32_t placements, double alpha) {
  std::vector<Look> looks;
  double spent = 0;
  for (const Look& early : {Look{8, 0.1 * alpha}, Look{16, 0.3 * alpha}})
    if (placements > early.placements) {
      looks.push_back(early);
      spent += early.alpha;
    }
  looks.push_back({placements, alpha - spent});
  return looks;
}

std::vector<std::size_t> settle_finalists(std::span<Comparison* const> all) {
  std::vector<bool> claimed(all.size(), false);
  std::vector<std::size_t> changed;
  for (std::size_t left = all.size(), before = left + 1; left > 0 && left < before;) {
    before = left;
    const double level = kAlpha / static_cast<double>(before);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (claimed[i]) continue;
      Comparison& own = *all[i];
      Design design = own.design;
      for (Look& l : design.looks) l.alpha *= level / design.alpha;
      design.alpha = level;
      Conclusion c = conclude(design, own.blocks, true, own.interrupted);
      if (!decisive(c.verdict)) continue;
      claimed[i] = true;
      --left;
      if (own.conclusion.verdict == c.verdict) continue;
      own.design = std::move(design);
      own.conclusion = std::move(c);
      changed.push_back(i);
    }
  }
  return changed;
}

Grouped counted(std::span<const Block> blocks, std::uint32_t placements, bool cycles) {
  std::vector<std::vector<double>> of(placements);
  for (const Block& b : blocks) {
    if (b.placement >= placements || !b.dropped.empty()) continue;
    const std::optional<double> value = cycles ? b.log_ratio_cycles() : b.log_ratio();
    if (value && std::isfinite(*value)) of[b.placement].push_back(*value);
  }
  std::erase_if(of, [](const auto& group) { return group.empty(); });
  return of;
}

Verdict decide(const Interval& i, double delta) {
  if (!i.bounded()) return Verdict::inconclusive;
  if (i.high < 1 - delta) return Verdict::faster;
  if (i.low > 1 + delta) return Verdict::slower;
  if (delta <= kMostEquivalent && i.low >= 1 - delta && i.high <= 1 + delta) return Verdict::equivalent;
  return Verdict::inconclusive;
}

Conclusion conclude(const Design& design, std::span<const Block> blocks, bool ended, bool interrupted) {
  const std::uint32_t done = placements_done(blocks);
  Conclusion c;
  double spent = 0;
  for (std::size_t k = 0; k < design.looks.size() && !interrupted; ++k) {
    const Look& look = design.looks[k];
    if (look.placements > done) break;
    c = at_look(design, blocks, look.placements, look.alpha);
    c.look = static_cast<std::uint32_t>(k + 1);
    spent += look.alpha;
    c.decided = decisive(c.verdict) || c.verdict == Verdict::clock_dependent || k + 1 == design.looks.size();
    if (c.decided) return c;
  }
  if (!ended && !interrupted) {
    const auto look = c.look;
    c = at_look(design, blocks, done, design.alpha - spent);  // for the person who watches; nothing rests on it
    c.look = look;
    return c;
  }
  // Time ran out before the look that was planned: what alpha is left is spent now.
  const auto look = static_cast<std::uint32_t>(c.look + 1);
  c = at_look(design, blocks, done, design.alpha - spent);
  c.look = look;
  c.decided = true;
  if (interrupted) {
    c.verdict = Verdict::inconclusive;
    c.headline.clear();
    c.reason = fmt::format("it was interrupted after {} of {} placements", done,
                           design.looks.empty() ? 0 : design.looks.back().placements);
  }
  return c;
}

std::vector<std::string> verify(const Comparison& s) {
  std::vector<std::string> wrong;
  const Conclusion c = conclude(s.design, s.blocks, true, s.interrupted);
  const Conclusion& was = s.conclusion;
  if (c.verdict != was.verdict)
    wrong.push_back(fmt::format("the verdict is \"{}\", the blocks give \"{}\"", to_string(was.verdict), to_string(c.verdict)));
  auto same = [&](const char* what, double stored, double computed) {
    if (!(std::abs(stored - computed) <= 1e-9 * std::max(1.0, std::abs(computed))))
      wrong.push_back(fmt::format("{} is {:.9g}, the blocks give {:.9g}", what, stored, computed));
  };
  same("the ratio", was.interval.ratio, c.interval.ratio);
  same("the lower bound", was.interval.low, c.interval.low);
  same("the upper bound", was.interval.high, c.interval.high);
  same("the number of placements", was.placements, c.placements);
  same("the number of blocks", was.blocks, c.blocks);
  same("the number of dropped blocks", was.blocks_dropped, c.blocks_dropped);
  if (was.headline != c.headline)
    wrong.push_back(fmt::format("the headline is \"{}\", the blocks give \"{}\"", was.headline, c.headline));
  if (was.cycles.has_value() != c.cycles.has_value())
    wrong.push_back("an interval of cycles is there in only one of the two");
  else if (c.cycles)
    same("the ratio of cycles", was.cycles->ratio, c.cycles->ratio);
  double alpha = 0;
  for (const Look& l : s.design.looks) alpha += l.alpha;
  if (alpha > s.design.alpha + 1e-9) wrong.push_back(fmt::format("its looks spend {:g}, more than {:g}", alpha, s.design.alpha));
  if (!(s.design.alpha > 0 && s.design.alpha <= kAlpha))
    wrong.push_back(fmt::format("its alpha is {:g}, not within 0 and {:g}", s.design.alpha, kAlpha));
  if (s.design.margin < 0.005 - 1e-12) wrong.push_back(fmt::format("its margin is {:g}, less than 0.005", s.design.margin));
  return wrong;
}

void to_json(Json& j, const Look& v) { j = Json{{"placements", v.placements}, {"alpha", v.alpha}}; }
void from_json(const Json& j, Look& v) {
  read_optional(j, "placements", v.placements);
  read_optional(j, "alpha", v.alpha);
}

void to_json(Json& j, const Design& v) {
  j = Json{{"margin", v.margin}, {"floor", v.floor}, {"delta", v.delta()}, {"most_dropped", v.most_dropped},
           {"seed", v.seed},     {"alpha", v.alpha}, {"looks", v.looks}};
}
void from_json(const Json& j, Design& v) {
  read_optional(j, "margin", v.margin);
  read_optional(j, "floor", v.floor);
  read_optional(j, "most_dropped", v.most_dropped);
  read_optional(j, "seed", v.seed);
  read_optional(j, "alpha", v.alpha);
  read_optional(j, "looks", v.looks);
}

void to_json(Json& j, const Conclusion& v) {
  j = Json{{"verdict", v.verdict},       {"reason", v.reason}, {"interval", v.interval},
           {"placements", v.placements}, {"blocks", v.blocks}, {"blocks_dropped", v.blocks_dropped},
           {"dropped", v.dropped},       {"look", v.look},     {"decided", v.decided},
           {"headline", v.headline}};
  if (v.cycles) j["cycles"] = *v.cycles;
}
void from_json(const Json& j, Conclusion& v) {
  read_optional(j, "verdict", v.verdict);
  read_optional(j, "reason", v.reason);
  read_optional(j, "interval", v.interval);
  read_optional(j, "placements", v.placements);
  read_optional(j, "blocks", v.blocks);
  read_optional(j, "blocks_dropped", v.blocks_dropped);
  read_optional(j, "dropped", v.dropped);
  read_optional(j, "look", v.look);
  read_optional(j, "decided", v.decided);
  read_optional(j, "headline", v.headline);
  if (j.contains("cycles")) v.cycles = j.at("cycles").get<Interval>();
}

void to_json(Json& j, const Comparison& v) {
  j = Json{{"design", v.design}, {"blocks", v.blocks}, {"interrupted", v.interrupted}, {"conclusion", v.conclusion}};
}
void from_json(const Json& j, Comparison& v) {
  v.design = j.at("design").get<Design>();
  v.blocks = j.at("blocks").get<std::vector<Block>>();
  read_optional(j, "interrupted", v.interrupted);
  v.conclusion = j.at("conclusion").get<Conclusion>();
}

}  // namespace klab::measure
