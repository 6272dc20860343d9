// SPDX-License-Identifier: Apache-2.0
#include "hub/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace klab::hub {
namespace {

TEST(Queue, one_at_a_time_for_each_device_and_devices_are_independent) {
  Queue q;
  const auto a1 = q.add("a", ""), a2 = q.add("a", ""), b1 = q.add("b", ""), a3 = q.add("a", "");
  EXPECT_TRUE(q.runs(a1));
  EXPECT_TRUE(q.runs(b1));
  EXPECT_EQ(q.place(a2), 1u);
  EXPECT_EQ(q.place(a3), 2u);
  q.remove(a1);
  EXPECT_TRUE(q.runs(a2));
  EXPECT_EQ(q.place(a3), 1u);
}

TEST(Queue, a_ticket_without_a_key_waits_for_all_and_holds_up_all_that_come_later) {
  Queue q;
  const auto a = q.add("a", ""), b = q.add("b", ""), any = q.add("", ""), later_a = q.add("a", ""),
             c = q.add("c", "");
  EXPECT_TRUE(q.runs(a));
  EXPECT_TRUE(q.runs(b));
  EXPECT_EQ(q.place(any), 1u);
  EXPECT_EQ(q.place(later_a), 2u) << "behind one that runs and one that waits";
  EXPECT_EQ(q.place(c), 2u) << "its device is free, but whoever waits for every device came first";
  q.remove(a);
  EXPECT_FALSE(q.runs(any));
  q.remove(b);
  EXPECT_TRUE(q.runs(any));
  EXPECT_EQ(q.place(c), 1u);
  q.remove(any);
  EXPECT_TRUE(q.runs(later_a));
  EXPECT_TRUE(q.runs(c));
}

TEST(Queue, one_that_gives_up_lets_those_behind_it_move_on) {
  Queue q;
  const auto first = q.add("a", ""), gives_up = q.add("a", ""), last = q.add("a", "");
  q.remove(gives_up);
  EXPECT_EQ(q.place(last), 1u);
  q.remove(first);
  EXPECT_TRUE(q.runs(last));
  EXPECT_EQ(q.place(gives_up), 0u) << "one that is not there waits for nothing";
}

TEST(DeviceQueue, tells_places_and_serves_in_order_with_never_two_at_once) {
  DeviceQueue q;
  auto first = q.wait("a", "first", {}, {});
  ASSERT_TRUE(first);
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::vector<unsigned>> places(4);
  std::atomic<int> at_once{0}, most{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      auto turn = q.wait("a", "", {}, [&, i](unsigned place) {
        const std::lock_guard lock(mutex);
        places[i].push_back(place);
      });
      ASSERT_TRUE(turn);
      most = std::max(most.load(), ++at_once);
      {
        const std::lock_guard lock(mutex);
        order.push_back(i);
      }
      --at_once;
    });
    while (q.rows().size() < static_cast<std::size_t>(i) + 2) std::this_thread::yield();
    for (bool told = false; !told; std::this_thread::yield()) {
      const std::lock_guard lock(mutex);
      told = !places[i].empty();
    }
  }
  EXPECT_EQ(q.rows()[4].place, 4u);
  first->reset();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(most, 1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(places[i].front(), static_cast<unsigned>(i) + 1);
    EXPECT_TRUE(std::is_sorted(places[i].rbegin(), places[i].rend()));
  }
  EXPECT_TRUE(q.rows().empty());
}

TEST(DeviceQueue, one_that_is_cancelled_leaves_and_is_not_in_the_way) {
  DeviceQueue q;
  auto first = q.wait("a", "", {}, {});
  auto given_up = q.wait("a", "", [] { return true; }, {});
  ASSERT_FALSE(given_up);
  EXPECT_EQ(given_up.error().code, ErrorCode::interrupted);
  EXPECT_EQ(q.rows().size(), 1u);
}

}  // namespace
}  // namespace klab::hub
