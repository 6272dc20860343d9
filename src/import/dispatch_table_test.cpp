// SPDX-License-Identifier: Apache-2.0
#include "import/dispatch_table.h"

#include <gtest/gtest.h>

namespace klab::import {
namespace {

/// Three kernels on two queues: b b a | c, and one dispatch without a time.
DispatchList sample() {
  DispatchList list;
  list.kernels = {{.name = "beta"}, {.name = "Alpha"}, {.name = "gamma"}};
  const auto row = [](std::uint32_t kernel, std::uint64_t sequence, std::uint64_t nth, std::uint32_t queue, double begin,
                      double ns, std::uint32_t x) {
    return Row{.kernel = kernel, .sequence = sequence, .nth = nth, .grid = {x, 1, 1}, .call = "call", .queue = queue,
               .begin_ns = begin, .gpu_ns = ns};
  };
  list.rows = {row(0, 1, 1, 0, 100, 10, 4), row(0, 2, 2, 0, 110, 30, 2), row(1, 3, 1, 0, 150, 50, 9),
               row(2, 4, 1, 1, 120, 20, 1), row(0, 5, 3, 0, 0, 0, 3)};
  return list;
}

std::vector<std::uint64_t> sequences(const DispatchTable& table, const RowQuery& query) {
  std::vector<std::uint64_t> all;
  for (const std::uint32_t at : *table.select(query)) all.push_back(table.row(at).sequence);
  return all;
}

using Numbers = std::vector<std::uint64_t>;

TEST(DispatchTable, rows_are_those_of_the_list) {
  const DispatchList list = sample();
  const DispatchTable table(list);
  ASSERT_EQ(table.size(), list.rows.size());
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    const Row row = table.row(i);
    EXPECT_EQ(row.sequence, list.rows[i].sequence);
    EXPECT_EQ(row.grid, list.rows[i].grid);
    EXPECT_EQ(row.call, "call");
    EXPECT_EQ(row.gpu_ns, list.rows[i].gpu_ns);
  }
  EXPECT_EQ(table.first_ns(), 100);
  EXPECT_EQ(table.last_ns(), 200);
}

TEST(DispatchTable, sorts_by_every_key_both_ways) {
  const DispatchTable table(sample());
  EXPECT_EQ(sequences(table, {}), (Numbers{1, 2, 3, 4, 5}));
  EXPECT_EQ(sequences(table, {.descending = true}), (Numbers{5, 4, 3, 2, 1}));
  EXPECT_EQ(sequences(table, {.sort = RowKey::gpu_ns, .descending = true}), (Numbers{3, 2, 4, 1, 5}));
  EXPECT_EQ(sequences(table, {.sort = RowKey::begin_ns}), (Numbers{5, 1, 2, 4, 3}));
  EXPECT_EQ(sequences(table, {.sort = RowKey::kernel}), (Numbers{3, 1, 2, 5, 4}));
  EXPECT_EQ(sequences(table, {.sort = RowKey::nth}), (Numbers{1, 3, 4, 2, 5}));
  EXPECT_EQ(sequences(table, {.sort = RowKey::grid}), (Numbers{4, 2, 5, 1, 3}));
  EXPECT_EQ(sequences(table, {.sort = RowKey::queue, .descending = true}), (Numbers{4, 1, 2, 3, 5}));
}

TEST(DispatchTable, filters) {
  const DispatchTable table(sample());
  EXPECT_EQ(sequences(table, {.kernel = 0}), (Numbers{1, 2, 5}));
  EXPECT_EQ(sequences(table, {.queue = 1}), (Numbers{4}));
  EXPECT_EQ(sequences(table, {.text = "ALPH"}), (Numbers{3}));
  EXPECT_EQ(sequences(table, {.text = "none"}), (Numbers{}));
  EXPECT_EQ(sequences(table, {.kernel = 7}), (Numbers{}));
  EXPECT_EQ(sequences(table, {.from_ns = 130, .to_ns = 145}), (Numbers{2, 4}));
}

TEST(DispatchTable, lanes_say_how_busy_a_queue_was_and_with_what) {
  const DispatchTable table(sample());
  const auto lanes = table.lanes(100, 200, 4);  // 25 ns each
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0].queue, 0u);
  EXPECT_DOUBLE_EQ(lanes[0].busy[0], 1.0);
  EXPECT_DOUBLE_EQ(lanes[0].busy[1], 15.0 / 25);
  EXPECT_DOUBLE_EQ(lanes[0].busy[2], 1.0);
  EXPECT_EQ(lanes[0].kernel, (std::vector<std::int64_t>{0, 0, 1, 1}));
  EXPECT_DOUBLE_EQ(lanes[1].busy[0], 5.0 / 25);
  EXPECT_DOUBLE_EQ(lanes[1].busy[1], 15.0 / 25);
  EXPECT_DOUBLE_EQ(lanes[1].busy[3], 0);
  EXPECT_EQ(lanes[1].kernel[3], -1);
  EXPECT_TRUE(table.lanes(100, 100, 4).empty());
}

TEST(DispatchTable, spans_reach_into_the_window_or_are_too_many) {
  const DispatchTable table(sample());
  const auto in = table.spans(135, 160, 10);
  ASSERT_TRUE(in.has_value());
  Numbers found;
  for (const std::uint32_t at : *in) found.push_back(table.row(at).sequence);
  EXPECT_EQ(found, (Numbers{2, 4, 3}));
  EXPECT_FALSE(table.spans(100, 200, 3).has_value());
}

TEST(DispatchTable, an_empty_list_is_none_of_all_this) {
  const DispatchTable table(DispatchList{});
  EXPECT_TRUE(table.select({})->empty());
  EXPECT_TRUE(table.lanes(0, 1, 10).empty());
}

}  // namespace
}  // namespace klab::import
