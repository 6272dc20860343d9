// SPDX-License-Identifier: Apache-2.0
// What of the CUDA backend needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <elf.h>

#include <cstring>

#include "gpu/cuda/arguments.h"
#include "gpu/cuda/clusters.h"
#include "gpu/cuda/code_object.h"
#include "gpu/parameters.h"
#include "kernels/kernels.h"

namespace klab::gpu::cuda {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(CudaClusters, neighbours_share_a_reservation_and_a_granule) {
  // Two small allocations in one granule, one that crosses a 32 MiB border, one far away.
  const AddressRange wanted[] = {
      {0x7f0000000200, 512}, {0x7f0000000400, 512}, {0x7f0001f00000, 4 * kMiB}, {0x7f1000000000, 1}};
  const auto clusters = plan_clusters(wanted, 2 * kMiB);
  ASSERT_EQ(clusters.size(), 2u);
  EXPECT_EQ(clusters[0].reserve.address, 0x7f0000000000u);
  EXPECT_EQ(clusters[0].reserve.size, 64 * kMiB);
  ASSERT_EQ(clusters[0].pages.size(), 2u);
  EXPECT_EQ(clusters[0].pages[0].address, 0x7f0000000000u);
  EXPECT_EQ(clusters[0].pages[0].size, 2 * kMiB);
  EXPECT_EQ(clusters[0].pages[1].address, 0x7f0001e00000u);
  EXPECT_EQ(clusters[0].pages[1].size, 6 * kMiB);
  EXPECT_EQ(clusters[1].reserve.address, 0x7f1000000000u);
  EXPECT_EQ(clusters[1].reserve.size, 32 * kMiB);
  EXPECT_EQ(clusters[1].pages[0].size, 2 * kMiB);
}

TEST(CudaClusters, any_order_overlaps_and_empty_ranges) {
  const AddressRange wanted[] = {{96 * kMiB, kMiB}, {0, 0}, {32 * kMiB, 33 * kMiB}, {40 * kMiB, kMiB}};
  const auto clusters = plan_clusters(wanted, 2 * kMiB);
  ASSERT_EQ(clusters.size(), 1u);
  EXPECT_EQ(clusters[0].reserve.address, 32 * kMiB);
  EXPECT_EQ(clusters[0].reserve.size, 96 * kMiB);
  ASSERT_EQ(clusters[0].pages.size(), 2u);
  EXPECT_EQ(clusters[0].pages[0].size, 34 * kMiB);
  EXPECT_TRUE(plan_clusters({}, 2 * kMiB).empty());
}

TEST(CudaClusters, a_free_granule_behind_each_run_becomes_its_redzone) {
  const AddressRange wanted[] = {{0x7f0000000000, 2 * kMiB}, {0x7f0000400000, 2 * kMiB}, {0x7f0000a00000, 22 * kMiB}};
  const auto clusters = plan_clusters(wanted, 2 * kMiB);
  ASSERT_EQ(clusters.size(), 1u);
  const Cluster grown = with_tails(clusters[0], 2 * kMiB);
  ASSERT_EQ(grown.pages.size(), 3u);
  EXPECT_EQ(grown.pages[0].size, 2 * kMiB) << "the next run is one granule away: they would touch";
  EXPECT_EQ(grown.pages[1].size, 4 * kMiB);
  EXPECT_EQ(grown.pages[2].size, 22 * kMiB) << "what is reserved ends there";
}

std::vector<std::byte> words(const std::vector<std::uint64_t>& values) {
  const auto b = std::as_bytes(std::span(values));
  return {b.begin(), b.end()};
}

TEST(CudaArguments, a_handle_is_replaced_in_arguments_that_can_hold_one) {
  auto buffer = words({5, 5, 7, 5});
  // The second word is two 4-byte arguments that happen to look like the handle; the last two are one struct.
  const std::vector<bundle::Argument> layout{{0, 8, {}}, {8, 4, {}}, {12, 4, {}}, {16, 16, {}}};
  EXPECT_EQ(replace_handle(buffer, layout, 5, 9), 2u);
  EXPECT_EQ(buffer, words({9, 5, 7, 9}));
  EXPECT_EQ(replace_handle(buffer, {}, 5, 9), 1u);
  EXPECT_EQ(replace_handle(buffer, {}, 1234, 9), 0u);
  auto ragged = words({5});
  ragged.resize(12);
  EXPECT_EQ(replace_handle(ragged, {}, 5, 9), 1u);
}

TEST(CudaArguments, another_parameter_list_is_named) {
  using List = std::vector<bundle::Argument>;
  const List captured{{0, 8, {}}, {8, 4, {}}};
  EXPECT_EQ(layout_difference(captured, captured), "");
  EXPECT_EQ(layout_difference(captured, List{{0, 8, {}}}), "it has no parameter 1 (4 bytes at offset 8)");
  EXPECT_EQ(layout_difference(captured, List{{0, 8, {}}, {8, 4, {}}, {12, 4, {}}}),
            "it has a parameter 2 more (4 bytes at offset 12)");
  EXPECT_EQ(layout_difference(captured, List{{0, 8, {}}, {8, 8, {}}}),
            "its parameter 1 is 8 bytes at offset 8, the captured one 4 bytes at offset 8");
}

TEST(CudaArguments, attributes_go_to_the_launch_or_the_function_or_nowhere) {
  using To = AppliedAttribute::To;
  const auto cooperative = apply_attribute({"cooperative", 1});
  EXPECT_EQ(cooperative.to, To::launch);
  EXPECT_EQ(cooperative.launch.id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  EXPECT_EQ(cooperative.launch.value.cooperative, 1);
  const auto priority = apply_attribute({"priority", -5});
  EXPECT_EQ(priority.launch.value.priority, -5);
  const auto shared = apply_attribute({"function.max_dynamic_shared_size_bytes", 100000});
  EXPECT_EQ(shared.to, To::function);
  EXPECT_EQ(shared.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  const auto dependent = apply_attribute({"programmatic_stream_serialization", 1});
  EXPECT_EQ(dependent.to, To::dropped);
  EXPECT_FALSE(dependent.why.empty());
  EXPECT_EQ(apply_attribute({"coperative", 1}).to, To::unknown);
  EXPECT_EQ(apply_attribute({"attribute_99", 1}).to, To::dropped);
  EXPECT_THAT(attribute_names(), ::testing::HasSubstr("cooperative, priority"));
}

TEST(CudaDriver, version_of_the_kernel_module) {
  EXPECT_EQ(
      version_in(
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (a@b)  Sun"),
      "580.65.06");
  EXPECT_EQ(version_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57  Tue"), "470.57");
  EXPECT_EQ(version_in("nothing here"), "");
}

/// An ELF file with one section .text.k of 48 bytes.
std::vector<std::byte> small_elf() {
  const std::string names("\0.shstrtab\0.text.k\0", 20);
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_shoff = 200;
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = 3;
  head.e_shstrndx = 1;
  Elf64_Shdr sections[3] = {};
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_name = 1;
  sections[1].sh_offset = 64;
  sections[1].sh_size = names.size();
  sections[2].sh_type = SHT_PROGBITS;
  sections[2].sh_name = 11;
  sections[2].sh_offset = 100;
  sections[2].sh_size = 48;
  std::vector<std::byte> file(200 + sizeof sections);
  std::memcpy(file.data(), &head, sizeof head);
  std::memcpy(file.data() + 64, names.data(), names.size());
  std::memcpy(file.data() + 200, sections, sizeof sections);
  return file;
}

TEST(CudaCode, kinds_are_told_apart_and_damage_is_refused) {
  auto kind = [](std::string_view text) {
    return code_kind(std::as_bytes(std::span(text.data(), text.size())));
  };
  EXPECT_EQ(kind("// c\n.version 8.0\n.target sm_90\n"), CodeKind::ptx);
  EXPECT_FALSE(kind("__global__ void k() {}"));
  EXPECT_FALSE(kind(""));
  EXPECT_EQ(code_kind(kernels::cuda_fatbin()), CodeKind::fatbin);
  EXPECT_FALSE(code_kind(kernels::cuda_fatbin().first(1000)));
  const auto elf = small_elf();
  EXPECT_EQ(code_kind(elf), CodeKind::cubin);
  EXPECT_EQ(text_bytes(elf, "k"), 48u);
  EXPECT_EQ(text_bytes(elf, "other"), std::nullopt);
  for (std::size_t size = 4; size < elf.size(); ++size)
    EXPECT_FALSE(code_kind(std::span(elf).first(size))) << size;
  auto lying = elf;
  lying[200 + sizeof(Elf64_Shdr) * 2 + offsetof(Elf64_Shdr, sh_size) + 7] = std::byte{0x7f};
  EXPECT_FALSE(code_kind(lying));
}

TEST(CudaApi, without_a_driver_it_says_what_to_install) {
  auto api = find_api("cuda");
  ASSERT_TRUE(api);
  const auto list = (*api)->list();
  if (list) GTEST_SKIP() << "there is a driver here";
  EXPECT_TRUE(list.error().code == ErrorCode::environment || list.error().code == ErrorCode::no_device);
  EXPECT_FALSE(list.error().hint.empty());
}

}  // namespace
}  // namespace klab::gpu::cuda
