// SPDX-License-Identifier: Apache-2.0
#include "mcp/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mcp/schemas.h"

namespace klab::mcp {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const Json kSchema = {{"type", "object"},
                      {"properties",
                       {{"n", {{"type", "integer"}, {"minimum", 1}, {"maximum", 10}}},
                        {"word", {{"type", "string"}, {"maxLength", 3}, {"enum", {"one", "two"}}}},
                        {"list", {{"type", "array"}, {"maxItems", 2}, {"items", {{"type", "string"}}}}},
                        {"inner",
                         {{"type", "object"},
                          {"properties", {{"x", {{"type", "boolean"}}}}},
                          {"required", {"x"}},
                          {"additionalProperties", false}}}}},
                      {"required", {"n"}},
                      {"additionalProperties", false}};

TEST(Schema, what_is_right_passes) {
  EXPECT_THAT(violation(kSchema, {{"n", 1}}), IsEmpty());
  EXPECT_THAT(
      violation(kSchema, {{"n", 10.0}, {"word", "two"}, {"list", {"a", "b"}}, {"inner", {{"x", true}}}}),
      IsEmpty());
}

TEST(Schema, the_first_thing_that_is_wrong_is_named_with_its_place) {
  EXPECT_THAT(violation(kSchema, Json::array()), HasSubstr("not of type object"));
  EXPECT_THAT(violation(kSchema, Json::object()), HasSubstr("n: is missing"));
  EXPECT_THAT(violation(kSchema, {{"n", 0}}), HasSubstr("n: 0 is less than 1"));
  EXPECT_THAT(violation(kSchema, {{"n", 11}}), HasSubstr("more than 10"));
  EXPECT_THAT(violation(kSchema, {{"n", 1.5}}), HasSubstr("not of type integer"));
  EXPECT_THAT(violation(kSchema, {{"n", "1"}}), HasSubstr("not of type integer"));
  EXPECT_THAT(violation(kSchema, {{"n", 1}, {"word", "six"}}), HasSubstr("none of \"one\", \"two\""));
  EXPECT_THAT(violation(kSchema, {{"n", 1}, {"list", {"a", 2}}}), HasSubstr("list[1]"));
  EXPECT_THAT(violation(kSchema, {{"n", 1}, {"list", {"a", "b", "c"}}}), HasSubstr("3 items"));
  EXPECT_THAT(violation(kSchema, {{"n", 1}, {"inner", Json::object()}}), HasSubstr("inner.x: is missing"));
  EXPECT_THAT(violation(kSchema, {{"n", 1}, {"other", 1}}),
              HasSubstr("other: there is no such member; there are: inner, list, n, word"));
}

TEST(Schema, a_text_with_a_nul_is_refused) {
  EXPECT_THAT(violation({{"type", "string"}}, std::string("a\0b", 3)), HasSubstr("NUL"));
}

TEST(Schema, length_counts_characters_not_bytes) {
  EXPECT_THAT(violation({{"type", "string"}, {"maxLength", 3}}, "äöü"), IsEmpty());
  EXPECT_THAT(violation({{"type", "string"}, {"maxLength", 2}}, "äöü"), HasSubstr("3 characters"));
}

TEST(Schemas, every_tool_has_closed_input_and_no_oneOf_at_the_top) {
  for (const Tool& tool : describe_tools()) {
    EXPECT_EQ(tool.input.at("type"), "object") << tool.name;
    EXPECT_EQ(tool.input.at("additionalProperties"), false) << tool.name;
    for (const char* word : {"oneOf", "anyOf", "allOf"}) EXPECT_FALSE(tool.input.contains(word)) << tool.name;
    EXPECT_EQ(tool.output.at("type"), "object") << tool.name;
    EXPECT_FALSE(tool.description.empty());
  }
}

TEST(Schemas, members_of_another_action_are_refused_by_name) {
  EXPECT_THAT(action_violation("search", {{"session", "s"}, {"action", "search"}, {"iterations", 3}}),
              HasSubstr("takes no \"iterations\""));
  EXPECT_THAT(action_violation("save", Json::object()), HasSubstr("needs \"variant\""));
  EXPECT_THAT(action_violation("compare", {{"source_text", "x"}}), HasSubstr("language"));
  EXPECT_THAT(action_violation("run", {{"iterations", 3}}), IsEmpty());
  EXPECT_THAT(action_violation("shell", Json::object()), HasSubstr("no action"));
}

}  // namespace
}  // namespace klab::mcp
