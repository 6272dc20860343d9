// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/ids.h"
#include "session/store.h"

namespace klab::session {
namespace {

struct StoreTest : testing::Test {
  fs::path folder = fs::temp_directory_path() / ("klab-store-" + new_id());
  ~StoreTest() override { fs::remove_all(folder); }
  Store open() { return std::move(Store::open(folder / "klab.sqlite").value()); }
};

TEST_F(StoreTest, a_variant_is_found_by_name_and_id_and_names_are_made_unique) {
  Store store = open();
  ASSERT_TRUE(store.put_bundle({.id = "b", .path = "/x", .kernel = "k", .made_at = "t"}));
  VariantRow row{.bundle = "b", .name = "wide", .language = "glsl"};
  row.launch.grid = bundle::Dim3{1, 2, 3};
  const auto first = store.add_variant(row), second = store.add_variant(row);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->name, "wide-2");
  EXPECT_EQ(store.variant("b", "wide")->id, first->id);
  EXPECT_EQ(store.variant("b", second->id)->launch.grid, row.launch.grid);
  const auto missing = store.variant("b", "nope");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().hint.find("wide-2"), std::string::npos);
}

TEST_F(StoreTest, a_delta_is_only_against_a_run_of_equal_conditions_and_device) {
  Store store = open();
  ASSERT_TRUE(store.put_bundle({.id = "b", .path = "/x", .kernel = "k", .made_at = "t"}));
  RunRow run{.bundle = "b", .device = "gpu 0", .median_ns = 10};
  ASSERT_TRUE(store.add_run(run));
  RunRow other = run;
  other.conditions.mode = replay::Mode::sustained;
  EXPECT_FALSE(store.previous_run(other)->has_value());
  other = run, other.device = "gpu 1";
  EXPECT_FALSE(store.previous_run(other)->has_value());
  EXPECT_EQ(store.previous_run(run)->value().median_ns, 10);
  RunRow failed = run;
  failed.outcome = replay::Outcome::timeout, failed.median_ns = 99;
  ASSERT_TRUE(store.add_run(failed));
  EXPECT_EQ(store.previous_run(run)->value().median_ns, 10);
}

TEST_F(StoreTest, two_connections_share_one_store_and_rows_survive_reopening) {
  {
    Store a = open(), b = open();
    ASSERT_TRUE(a.put_bundle({.id = "b", .path = "/x", .kernel = "k", .made_at = "t"}));
    ASSERT_TRUE(b.add_variant({.bundle = "b", .name = "v"}));
    const auto v = a.variant("b", "v");
    ASSERT_TRUE(v);
    ASSERT_TRUE(
        a.add_verdict({.bundle = "b", .variant = v->id, .correctness = validate::Correctness::incorrect}));
    EXPECT_TRUE(a.select_source("b", "/s.comp", "h", {}));
    ASSERT_TRUE(b.put_bundle({.id = "b", .path = "/y", .kernel = "k", .made_at = "t"}));
  }
  Store again = open();
  EXPECT_EQ(again.bundle("b")->value().path, "/y");
  EXPECT_EQ(again.bundle("b")->value().source_file, "/s.comp");
  const auto id = again.variant("b", "v")->id;
  EXPECT_EQ(again.standing_verdict("b", id)->value().correctness, validate::Correctness::incorrect);
}

TEST_F(StoreTest, one_dispatch_that_fails_outweighs_a_later_success_on_another) {
  Store store = open();
  ASSERT_TRUE(store.put_bundle({.id = "b", .path = "/x", .kernel = "k", .made_at = "t"}));
  const auto v = store.add_variant({.bundle = "b", .name = "v"});
  ASSERT_TRUE(v);
  VerdictRow row{
      .bundle = "b", .dispatch = 1, .variant = v->id, .correctness = validate::Correctness::incorrect};
  ASSERT_TRUE(store.add_verdict(row));
  row.dispatch = 0, row.correctness = validate::Correctness::correct;
  ASSERT_TRUE(store.add_verdict(row));
  EXPECT_EQ(store.standing_verdict("b", v->id)->value().correctness, validate::Correctness::incorrect);
  row.dispatch = 1;
  ASSERT_TRUE(store.add_verdict(row));
  EXPECT_EQ(store.standing_verdict("b", v->id)->value().correctness, validate::Correctness::correct);
}

TEST_F(StoreTest, a_store_of_a_newer_klab_is_refused_and_left_alone) {
  { Store store = open(); }
  {
    auto db = Database::open(folder / "klab.sqlite");
    ASSERT_TRUE(db->run("PRAGMA user_version=99"));
  }
  const auto refused = Store::open(folder / "klab.sqlite");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
}

TEST_F(StoreTest, a_file_that_is_no_database_is_named) {
  ASSERT_TRUE(make_folders(folder));
  ASSERT_TRUE(write_file_atomic(folder / "klab.sqlite", std::string(5000, 'x')));
  const auto refused = Store::open(folder / "klab.sqlite");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::store_failed);
  EXPECT_FALSE(refused.error().hint.empty());
}

}  // namespace
}  // namespace klab::session
