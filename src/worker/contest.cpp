// SPDX-License-Identifier: Apache-2.0
#include "worker/contest.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/units.h"

namespace klab::worker {
namespace {

using Clock = Deadline::Clock;
using measure::Block;

constexpr double kMostWarmUp = 15, kWarmUpShare = 0.25;  // seconds; of the budget
constexpr double kWindow = 0.1, kAgree = 0.005;          // seconds; relative
constexpr double kSettle = 0.05;                         // seconds after each new placement
constexpr std::uint32_t kFewestBlocks = 6, kMostBlocks = 60, kMostLaunches = 4096;
constexpr double kOverrun = 1.25;  // of the budget, before the plan is cut short

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) { return measure::grouped_median(values, 0); }

/// What the warm-up has found out.
struct Estimate {
  double time_ns[2] = {0, 0}, wall_ns = 0;  // of a launch
  double step_ns = 0;                       // of the timer
  std::uint32_t launches = 1;               // of a letter
  double letter_s() const { return wall_ns * 1e-9 * launches; }
};

class Contest {
 public:
  Contest(const ContestSetup& setup, double budget_s, const Deadline& deadline)
      : setup_(setup), how_(*setup.how), budget_(budget_s), deadline_(deadline) {
    done_.comparison.design.margin = how_.margin;
    done_.comparison.design.seed = setup.seed;
    done_.comparison.design.alpha = how_.alpha;
  }

  Result<Contested> run(const std::function<Result<double>(double)>& floor_for) {
    KLAB_TRY_VOID(enter(0));
    const double place_s = since(start_);
    KLAB_TRY_VOID(warm_up());
    const auto aside = Clock::now();
    KLAB_TRY(done_.comparison.design.floor, floor_for(estimate_.time_ns[0]));
    const auto spent = Clock::now() - aside;
    if (std::chrono::duration<double>(spent).count() > 0.001) {
      start_ += spent;  // the floor's time is not this contest's
      KLAB_TRY_VOID(enter(0));
      KLAB_TRY_VOID(settle());
    }
    plan(place_s);
    for (std::uint32_t p = 0; p < placements_; ++p) {
      if (p != 0) {
        timer_.reset();
        KLAB_TRY_VOID(enter(p));
        KLAB_TRY_VOID(settle());
      }
      if (stopped()) break;
      KLAB_TRY_VOID(blocks_of(p));
      KLAB_TRY(const TimingFacts facts, timer_->finish());
      if (done_.outside.empty()) done_.outside = facts.outside;
      if (done_.inconsistent.empty()) done_.inconsistent = facts.inconsistent;
      const auto now = measure::conclude(done_.comparison.design, done_.comparison.blocks, false);
      say(p + 1, now);
      if (now.decided || stopped() || over(p + 1) || wrong()) break;
    }
    return finish();
  }

 private:
  bool stopped() const { return setup_.stop && setup_.stop(); }
  /// Fewer placements than an interval needs are never left at.
  bool over(std::uint32_t placements) const {
    return placements >= measure::kFewestPlacements && since(start_) > budget_ * kOverrun;
  }
  bool wrong() const {
    return !done_.outside.empty() || !done_.pair[0].wrong_launch.empty() || !done_.pair[1].wrong_launch.empty();
  }

  void say(std::uint32_t placements, const measure::Conclusion& now) {
    if (!setup_.progress) return;
    setup_.progress(now.interval.bounded() ? fmt::format("B takes {:.4f} of A's time, {:.4f} to {:.4f} so far", now.interval.ratio,
                                                         now.interval.low, now.interval.high)
                                           : fmt::format("B takes {:.4f} of A's time so far", now.interval.ratio),
                    placements, placements_);
  }

  Status enter(std::uint32_t placement) {
    const auto start = Clock::now();
    timer_.reset();
    KLAB_TRY(timing_, setup_.place(placement, done_.pair));
    KLAB_TRY(auto timer, LetterTimer::create(timing_, done_.pair, setup_.sustained, setup_.clock, deadline_));
    timer_.emplace(std::move(timer));
    placing_s_ += since(start);
    return {};
  }

  /// The letter's samples are taken out again.
  Result<LetterTimer::Letter> try_letter(std::uint32_t which, std::uint32_t launches, std::vector<double>& times) {
    KLAB_TRY(const auto letter, timer_->take(which, launches));
    auto& samples = done_.pair[which].samples_ns;
    times.insert(times.end(), samples.begin() + static_cast<std::ptrdiff_t>(letter.first), samples.end());
    samples.resize(letter.first);
    return letter;
  }

  /// A and B take turns until three windows agree in time and clock.
  Status warm_up() {
    const auto start = Clock::now();
    const double most = std::min(kMostWarmUp, budget_ * kWarmUpShare);
    struct Window {
      double time[2] = {0, 0}, clock = 0;
    };
    std::vector<Window> windows;
    std::vector<double> all[2];
    std::uint32_t launches = 1;
    bool settled = false;
    do {
      const auto window_start = Clock::now();
      Window w;
      std::vector<double> times[2], clocks;
      double wall = 0;
      std::uint64_t count = 0;
      do {
        for (std::uint32_t which = 0; which < 2; ++which) {
          KLAB_TRY(const auto letter, try_letter(which, launches, times[which]));
          wall += letter.wall_ns;
          count += launches;
          if (letter.clock_mhz) clocks.push_back(*letter.clock_mhz);
        }
        const double fastest = std::min(median(times[0]), median(times[1]));
        launches = letter_launches(fastest, wall / static_cast<double>(count));
      } while (since(window_start) < kWindow && since(start) < most && !stopped());
      for (int which = 0; which < 2; ++which) {
        w.time[which] = median(times[which]);
        all[which].insert(all[which].end(), times[which].begin(), times[which].end());
      }
      if (!clocks.empty()) w.clock = median(clocks);
      windows.push_back(w);
      for (int which = 0; which < 2; ++which) estimate_.time_ns[which] = w.time[which];
      estimate_.wall_ns = wall / static_cast<double>(count);
      settled = windows.size() >= 3 && agree(windows, [](const Window& x) { return x.time[0]; }) &&
                agree(windows, [](const Window& x) { return x.time[1]; }) &&
                agree(windows, [](const Window& x) { return x.clock; });
    } while (!settled && since(start) < most && !stopped());
    all[0].insert(all[0].end(), all[1].begin(), all[1].end());
    estimate_.step_ns = measure::timer_step(all[0]);
    estimate_.launches = letter_launches(std::min(estimate_.time_ns[0], estimate_.time_ns[1]), estimate_.wall_ns);
    done_.facts["warm_up"] = {{"seconds", since(start)}, {"settled", settled}, {"windows", windows.size()}};
    return {};
  }

  template <class W, class Get>
  static bool agree(const std::vector<W>& windows, Get get) {
    double low = INFINITY, high = 0;
    for (std::size_t i = windows.size() - 3; i < windows.size(); ++i) {
      low = std::min(low, get(windows[i]));
      high = std::max(high, get(windows[i]));
    }
    return high <= low * (1 + kAgree);
  }

  /// So many that they add up to letter_ms on the device, but no more than a short budget has room for.
  std::uint32_t letter_launches(double time_ns, double wall_ns) const {
    const double wanted = std::ceil(how_.letter_ms * 1e6 / std::max(1.0, time_ns));
    const double room = budget_ * 1e9 / (4 * kFewestBlocks * 8) / std::max(1.0, wall_ns);
    return static_cast<std::uint32_t>(std::clamp(std::min(wanted, std::max(room, 5.0)), 1.0, double{kMostLaunches}));
  }

  void plan(double place_s) {
    const double each = place_s + kSettle, block = 4 * estimate_.letter_s();
    const double left = std::max(0.0, budget_ - since(start_));
    double p = std::floor(left / (each + kFewestBlocks * block));
    placements_ = how_.placements != 0 ? how_.placements
                                       : static_cast<std::uint32_t>(
                                             std::clamp(p, double{measure::kFewestPlacements}, double{measure::kMostPlacements}));
    const double room = (left / placements_ - each) / block;
    // Six blocks in each, unless even the fewest placements have no time for them.
    const double fewest = placements_ == measure::kFewestPlacements ? 1 : kFewestBlocks;
    blocks_ = how_.blocks != 0 ? how_.blocks : static_cast<std::uint32_t>(std::clamp(room, fewest, double{kMostBlocks}));
    done_.comparison.design.looks = measure::looks_for(placements_, how_.alpha);
    order_ = measure::balanced_order(placements_ * blocks_, setup_.seed);
    done_.facts["launches_per_letter"] = estimate_.launches;
    done_.facts["blocks_per_placement"] = blocks_;
    done_.facts["timer_step_ns"] = estimate_.step_ns;
  }

  Status settle() {
    const auto start = Clock::now();
    std::vector<double> times;
    do {
      for (std::uint32_t which = 0; which < 2; ++which) KLAB_TRY_VOID(try_letter(which, estimate_.launches, times));
    } while (since(start) < kSettle && !stopped());
    return {};
  }

  Status blocks_of(std::uint32_t placement) {
    for (std::uint32_t k = 0; k < blocks_ && !stopped(); ++k) {
      Block block;
      block.placement = placement;
      block.starts_with_b = order_[placement * blocks_ + k];
      block.at_s = since(start_);
      setup_.observer->begin();
      std::size_t of[2] = {0, 0};
      for (const bool second : {false, true, true, false}) {
        const bool is_b = second != block.starts_with_b;
        KLAB_TRY(const auto letter, timer_->take(is_b ? 1 : 0, estimate_.launches));
        const auto& samples = done_.pair[is_b].samples_ns;
        measure::Letter& l = (is_b ? block.b : block.a)[of[is_b]++];
        l.time_ns = measure::grouped_median(std::span(samples).subspan(letter.first), estimate_.step_ns);
        l.launches = estimate_.launches;
        l.clock_mhz = letter.clock_mhz;
      }
      block.dropped = setup_.observer->end(block.at_s);
      done_.comparison.blocks.push_back(std::move(block));
    }
    return {};
  }

  Contested finish() {
    const bool stop = stopped();
    done_.comparison.interrupted = stop;
    done_.comparison.conclusion = measure::conclude(done_.comparison.design, done_.comparison.blocks, true, stop);
    done_.facts["budget_s"] = budget_;
    done_.facts["spent_s"] = {{"warm_up", done_.facts["warm_up"]["seconds"]}, {"placing", placing_s_}, {"all", since(start_)}};
    return std::move(done_);
  }

  const ContestSetup& setup_;
  const replay::Comparing& how_;
  double budget_;
  const Deadline& deadline_;
  Clock::time_point start_ = Clock::now();
  Estimate estimate_;
  std::uint32_t placements_ = 0, blocks_ = 0;
  std::vector<bool> order_;
  double placing_s_ = 0;
  TimingSetup timing_;
  std::optional<LetterTimer> timer_;
  Contested done_;
};

}  // namespace

std::string floor_class(double median_ns, std::string_view cache) {
  const double decade = std::pow(10, std::floor(std::log10(std::max(1.0, median_ns))));
  const auto text = [](double ns) {
    return ns >= 1e9 ? fmt::format("{:g}s", ns / 1e9) : ns >= 1e6 ? fmt::format("{:g}ms", ns / 1e6)
                                                     : ns >= 1e3 ? fmt::format("{:g}us", ns / 1e3) : fmt::format("{:g}ns", ns);
  };
  return fmt::format("{}-{} {}", text(decade), text(10 * decade), cache);
}

Result<Contested> run_contest(const ContestSetup& setup, double budget_s, const std::function<Result<double>(double)>& floor_for,
                              const Deadline& deadline) {
  return Contest(setup, budget_s, deadline).run(floor_for);
}

}  // namespace klab::worker
