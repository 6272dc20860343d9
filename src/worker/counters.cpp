// SPDX-License-Identifier: Apache-2.0
// Source of names and formulas: Nsight Compute documentation, Kernel Profiling Guide, "Metrics Structure" and the
// roofline and memory tables, CUDA 13.0.
#include "worker/counters.h"

#include <algorithm>

namespace klab::worker {
namespace {

struct Term {
  const char* counter;
  double factor = 1;
};
struct Derived {
  const char* name;
  const char* unit;
  std::vector<Term> terms;  // their sum
};

const std::vector<Derived>& cuda_derived() {
  static const std::vector<Derived> all = {
      {"dram_read_bytes", "bytes", {{"dram__bytes_read.sum"}}},
      {"dram_written_bytes", "bytes", {{"dram__bytes_write.sum"}}},
      {"dram_bytes", "bytes", {{"dram__bytes_read.sum"}, {"dram__bytes_write.sum"}}},
      {"l2_bytes", "bytes", {{"lts__t_sectors.sum", 32}}},
      {"l1_hit_rate", "%", {{"l1tex__t_sector_hit_rate.pct"}}},
      {"l2_hit_rate", "%", {{"lts__t_sector_hit_rate.pct"}}},
      // A fused multiply-add is two operations; half-precision instructions here work on pairs.
      {"flop_fp64",
       "operations",
       {{"smsp__sass_thread_inst_executed_op_dadd_pred_on.sum"},
        {"smsp__sass_thread_inst_executed_op_dmul_pred_on.sum"},
        {"smsp__sass_thread_inst_executed_op_dfma_pred_on.sum", 2}}},
      {"flop_fp32",
       "operations",
       {{"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"},
        {"smsp__sass_thread_inst_executed_op_fmul_pred_on.sum"},
        {"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 2}}},
      {"flop_fp16",
       "operations",
       {{"smsp__sass_thread_inst_executed_op_hadd_pred_on.sum", 2},
        {"smsp__sass_thread_inst_executed_op_hmul_pred_on.sum", 2},
        {"smsp__sass_thread_inst_executed_op_hfma_pred_on.sum", 4}}},
      {"tensor_instructions", "warp instructions", {{"sm__inst_executed_pipe_tensor.sum"}}},
      {"instructions", "warp instructions", {{"smsp__inst_executed.sum"}}},
      {"issue_active", "% of cycles with a warp active", {{"smsp__issue_active.avg.pct_of_peak_sustained_active"}}},
      {"achieved_occupancy", "% of warp slots", {{"sm__warps_active.avg.pct_of_peak_sustained_active"}}},
      {"compute_share", "% of peak", {{"sm__throughput.avg.pct_of_peak_sustained_elapsed"}}},
      {"memory_share", "% of peak", {{"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"}}},
      {"dram_share", "% of peak", {{"dram__throughput.avg.pct_of_peak_sustained_elapsed"}}},
      {"shared_bank_conflicts",
       "extra wavefronts",
       {{"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"}}},
      {"duration", "ns", {{"gpu__time_duration.sum"}}},
  };
  return all;
}

// Warps that wait for this reason, for each cycle in which an instruction is issued.
constexpr const char* kStalls[] = {"barrier",     "branch_resolving", "dispatch_stall",       "drain",
                                   "gmma",        "imc_miss",         "lg_throttle",          "long_scoreboard",
                                   "math_pipe_throttle", "membar",    "mio_throttle",         "misc",
                                   "no_instruction", "not_selected",  "selected",             "short_scoreboard",
                                   "sleeping",    "tex_throttle",     "wait"};
std::string stall_counter(const char* reason) {
  return std::string("smsp__average_warps_issue_stalled_") + reason + "_per_issue_active.ratio";
}

}  // namespace

std::vector<std::string> counter_names(std::string_view api, const std::vector<std::string>& asked) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& name) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  };
  for (const std::string& name : asked) {
    if (name != "default") {
      add(name);
    } else if (api == "cuda") {
      for (const Derived& d : cuda_derived())
        for (const Term& t : d.terms) add(t.counter);
      for (const char* reason : kStalls) add(stall_counter(reason));
    }
  }
  return out;
}

Json counters_json(std::string_view api, const gpu::Counters& counters) {
  Json values = Json::object(), derived = Json::object();
  for (const auto& v : counters.values) values[v.name] = v.value;
  if (api == "cuda") {
    for (const Derived& d : cuda_derived()) {
      double sum = 0;
      Json from = Json::array();
      bool whole = true;
      for (const Term& t : d.terms) {
        const auto it = values.find(t.counter);
        if (it == values.end()) {
          whole = false;
          break;
        }
        sum += t.factor * it->get<double>();
        from.push_back(t.factor == 1 ? std::string(t.counter)
                                     : std::to_string(static_cast<int>(t.factor)) + " * " + t.counter);
      }
      if (whole) derived[d.name] = {{"value", sum}, {"unit", d.unit}, {"from", from}};
    }
    Json stalls = Json::object();
    for (const char* reason : kStalls)
      if (const auto it = values.find(stall_counter(reason)); it != values.end()) stalls[reason] = *it;
    if (!stalls.empty()) derived["stalled_warps_per_issue"] = {{"value", stalls}, {"unit", "warps"}};
  }
  return Json{{"values", values}, {"derived", derived}, {"missing", counters.missing}, {"passes", counters.passes}};
}

}  // namespace klab::worker
