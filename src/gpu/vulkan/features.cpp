// SPDX-License-Identifier: Apache-2.0
// The table of extensions and feature structs.
#include "gpu/vulkan/features.h"

#include <algorithm>

namespace klab::gpu::vulkan {
namespace {

struct Row {
  const char* extension;
  std::uint32_t core_since;  // the Vulkan version whose VulkanXYFeatures struct has it; 0: never
  std::size_t size;          // of the feature struct; 0: none
  VkStructureType type;
};

#define KLAB_FEATURES(T, S) sizeof(VkPhysicalDevice##T), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##S
#define KLAB_NO_FEATURES 0, VK_STRUCTURE_TYPE_MAX_ENUM
const Row kRows[] = {
    {VK_KHR_16BIT_STORAGE_EXTENSION_NAME, VK_API_VERSION_1_2,
     KLAB_FEATURES(16BitStorageFeatures, 16BIT_STORAGE_FEATURES)},
    {VK_KHR_VARIABLE_POINTERS_EXTENSION_NAME, VK_API_VERSION_1_2,
     KLAB_FEATURES(VariablePointersFeatures, VARIABLE_POINTERS_FEATURES)},
    {VK_KHR_8BIT_STORAGE_EXTENSION_NAME, VK_API_VERSION_1_2,
     KLAB_FEATURES(8BitStorageFeatures, 8BIT_STORAGE_FEATURES)},
    {VK_KHR_SHADER_ATOMIC_INT64_EXTENSION_NAME, VK_API_VERSION_1_2,
     KLAB_FEATURES(ShaderAtomicInt64Features, SHADER_ATOMIC_INT64_FEATURES)},
    {VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VK_API_VERSION_1_2,
     KLAB_FEATURES(ShaderFloat16Int8Features, SHADER_FLOAT16_INT8_FEATURES)},
    {VK_EXT_DESCRIPTOR_INDEXING_EXTENSION_NAME, VK_API_VERSION_1_2,
     KLAB_FEATURES(DescriptorIndexingFeatures, DESCRIPTOR_INDEXING_FEATURES)},
    {VK_EXT_SCALAR_BLOCK_LAYOUT_EXTENSION_NAME, VK_API_VERSION_1_2,
     KLAB_FEATURES(ScalarBlockLayoutFeatures, SCALAR_BLOCK_LAYOUT_FEATURES)},
    {VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, VK_API_VERSION_1_2,
     KLAB_FEATURES(VulkanMemoryModelFeatures, VULKAN_MEMORY_MODEL_FEATURES)},
    {VK_KHR_UNIFORM_BUFFER_STANDARD_LAYOUT_EXTENSION_NAME, VK_API_VERSION_1_2,
     KLAB_FEATURES(UniformBufferStandardLayoutFeatures, UNIFORM_BUFFER_STANDARD_LAYOUT_FEATURES)},
    {VK_KHR_SHADER_SUBGROUP_EXTENDED_TYPES_EXTENSION_NAME, VK_API_VERSION_1_2,
     KLAB_FEATURES(ShaderSubgroupExtendedTypesFeatures, SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES)},
    {VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME, VK_API_VERSION_1_2,
     KLAB_FEATURES(BufferDeviceAddressFeatures, BUFFER_DEVICE_ADDRESS_FEATURES)},
    {VK_KHR_SPIRV_1_4_EXTENSION_NAME, VK_API_VERSION_1_2, KLAB_NO_FEATURES},
    {VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, VK_API_VERSION_1_2, KLAB_NO_FEATURES},
    {VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_API_VERSION_1_3,
     KLAB_FEATURES(SubgroupSizeControlFeatures, SUBGROUP_SIZE_CONTROL_FEATURES)},
    {VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, VK_API_VERSION_1_3,
     KLAB_FEATURES(ShaderIntegerDotProductFeatures, SHADER_INTEGER_DOT_PRODUCT_FEATURES)},
    {VK_KHR_ZERO_INITIALIZE_WORKGROUP_MEMORY_EXTENSION_NAME, VK_API_VERSION_1_3,
     KLAB_FEATURES(ZeroInitializeWorkgroupMemoryFeatures, ZERO_INITIALIZE_WORKGROUP_MEMORY_FEATURES)},
    {VK_KHR_SHADER_TERMINATE_INVOCATION_EXTENSION_NAME, VK_API_VERSION_1_3,
     KLAB_FEATURES(ShaderTerminateInvocationFeatures, SHADER_TERMINATE_INVOCATION_FEATURES)},
    {VK_KHR_MAINTENANCE_4_EXTENSION_NAME, VK_API_VERSION_1_3,
     KLAB_FEATURES(Maintenance4Features, MAINTENANCE_4_FEATURES)},
    {VK_KHR_SHADER_NON_SEMANTIC_INFO_EXTENSION_NAME, VK_API_VERSION_1_3, KLAB_NO_FEATURES},
    {VK_KHR_SHADER_CLOCK_EXTENSION_NAME, 0, KLAB_FEATURES(ShaderClockFeaturesKHR, SHADER_CLOCK_FEATURES_KHR)},
    {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME, 0,
     KLAB_FEATURES(PipelineExecutablePropertiesFeaturesKHR, PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR)},
    {VK_KHR_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_EXTENSION_NAME, 0,
     KLAB_FEATURES(WorkgroupMemoryExplicitLayoutFeaturesKHR, WORKGROUP_MEMORY_EXPLICIT_LAYOUT_FEATURES_KHR)},
    {VK_KHR_SHADER_SUBGROUP_UNIFORM_CONTROL_FLOW_EXTENSION_NAME, 0,
     KLAB_FEATURES(ShaderSubgroupUniformControlFlowFeaturesKHR, SHADER_SUBGROUP_UNIFORM_CONTROL_FLOW_FEATURES_KHR)},
    {VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME, 0,
     KLAB_FEATURES(ShaderAtomicFloatFeaturesEXT, SHADER_ATOMIC_FLOAT_FEATURES_EXT)},
    {VK_EXT_SHADER_ATOMIC_FLOAT_2_EXTENSION_NAME, 0,
     KLAB_FEATURES(ShaderAtomicFloat2FeaturesEXT, SHADER_ATOMIC_FLOAT_2_FEATURES_EXT)},
    {VK_EXT_SHADER_IMAGE_ATOMIC_INT64_EXTENSION_NAME, 0,
     KLAB_FEATURES(ShaderImageAtomicInt64FeaturesEXT, SHADER_IMAGE_ATOMIC_INT64_FEATURES_EXT)},
    {VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME, 0,
     KLAB_FEATURES(CooperativeMatrixFeaturesNV, COOPERATIVE_MATRIX_FEATURES_NV)},
#ifdef VK_KHR_cooperative_matrix
    {VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, 0,
     KLAB_FEATURES(CooperativeMatrixFeaturesKHR, COOPERATIVE_MATRIX_FEATURES_KHR)},
#endif
#ifdef VK_KHR_shader_expect_assume
    {VK_KHR_SHADER_EXPECT_ASSUME_EXTENSION_NAME, 0,
     KLAB_FEATURES(ShaderExpectAssumeFeaturesKHR, SHADER_EXPECT_ASSUME_FEATURES_KHR)},
#endif
#ifdef VK_KHR_shader_float_controls2
    {VK_KHR_SHADER_FLOAT_CONTROLS_2_EXTENSION_NAME, 0,
     KLAB_FEATURES(ShaderFloatControls2FeaturesKHR, SHADER_FLOAT_CONTROLS_2_FEATURES_KHR)},
#endif
#ifdef VK_KHR_shader_bfloat16
    {VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME, 0,
     KLAB_FEATURES(ShaderBfloat16FeaturesKHR, SHADER_BFLOAT16_FEATURES_KHR)},
#endif
    {VK_NV_COMPUTE_SHADER_DERIVATIVES_EXTENSION_NAME, 0,
     KLAB_FEATURES(ComputeShaderDerivativesFeaturesNV, COMPUTE_SHADER_DERIVATIVES_FEATURES_NV)},
    {VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME, 0,
     KLAB_FEATURES(ShaderSMBuiltinsFeaturesNV, SHADER_SM_BUILTINS_FEATURES_NV)},
    {VK_INTEL_SHADER_INTEGER_FUNCTIONS_2_EXTENSION_NAME, 0,
     KLAB_FEATURES(ShaderIntegerFunctions2FeaturesINTEL, SHADER_INTEGER_FUNCTIONS_2_FEATURES_INTEL)},
    {VK_NV_SHADER_SUBGROUP_PARTITIONED_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
    {VK_EXT_SHADER_SUBGROUP_BALLOT_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
    {VK_EXT_SHADER_SUBGROUP_VOTE_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
    {VK_AMD_SHADER_BALLOT_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
    {VK_AMD_SHADER_TRINARY_MINMAX_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
    {VK_AMD_GPU_SHADER_HALF_FLOAT_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
    {VK_AMD_GPU_SHADER_INT16_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
    {VK_AMD_GCN_SHADER_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
    {VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
    {VK_KHR_EXTERNAL_MEMORY_EXTENSION_NAME, VK_API_VERSION_1_1, KLAB_NO_FEATURES},
    {VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
    {VK_EXT_MEMORY_BUDGET_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
    {VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME, 0, KLAB_NO_FEATURES},
};

template <class T>
const T* cast(const void* p) {
  return static_cast<const T*>(p);
}

}  // namespace

void Features::add(std::size_t size, VkStructureType type) {
  auto block = std::make_unique<std::byte[]>(size);
  auto* head = reinterpret_cast<VkBaseOutStructure*>(block.get());
  head->sType = type;
  head->pNext = static_cast<VkBaseOutStructure*>(base_.pNext);
  base_.pNext = head;
  blocks_.push_back(std::move(block));
}

void* Features::find(VkStructureType type) {
  for (auto& block : blocks_)
    if (reinterpret_cast<VkBaseOutStructure*>(block.get())->sType == type) return block.get();
  return nullptr;
}

Features::Features(const Instance& instance, VkPhysicalDevice device) : present_(device_extensions(instance, device)) {
  VkPhysicalDeviceProperties2 properties{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  instance.call.GetPhysicalDeviceProperties2(device, &properties);
  api_version = std::min(properties.properties.apiVersion, VK_API_VERSION_1_3 | 0xfffu);
  if (api_version >= VK_API_VERSION_1_2) {
    add(sizeof(VkPhysicalDeviceVulkan11Features), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    add(sizeof(VkPhysicalDeviceVulkan12Features), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  }
  if (api_version >= VK_API_VERSION_1_3)
    add(sizeof(VkPhysicalDeviceVulkan13Features), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  for (const Row& row : kRows) {
    if (row.core_since != 0 && api_version >= row.core_since) continue;
    if (!extension(row.extension)) continue;
    enabled_.push_back(row.extension);
    if (row.size != 0) add(row.size, row.type);
  }
  instance.call.GetPhysicalDeviceFeatures2(device, &base_);

  // Bounds checks would change what is measured, and the rest is of no use to compute.
  base_.features.robustBufferAccess = VK_FALSE;
  if (void* p = find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES)) {
    auto& f = *static_cast<VkPhysicalDeviceVulkan11Features*>(p);
    f.protectedMemory = f.multiview = f.multiviewGeometryShader = f.multiviewTessellationShader = VK_FALSE;
    v11 = f;
  }
  if (void* p = find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)) {
    auto& f = *static_cast<VkPhysicalDeviceVulkan12Features*>(p);
    f.bufferDeviceAddressMultiDevice = VK_FALSE;
    v12 = f;
  }
  if (void* p = find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES)) {
    auto& f = *static_cast<VkPhysicalDeviceVulkan13Features*>(p);
    f.robustImageAccess = VK_FALSE;
    v13 = f;
  }
  // An older device: the same facts from the extensions' own structs, so that others ask in one place.
  if (auto* p = cast<VkPhysicalDevice16BitStorageFeatures>(
          find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES))) {
    v11.storageBuffer16BitAccess = p->storageBuffer16BitAccess;
    v11.uniformAndStorageBuffer16BitAccess = p->uniformAndStorageBuffer16BitAccess;
    v11.storagePushConstant16 = p->storagePushConstant16;
  }
  if (auto* p = cast<VkPhysicalDevice8BitStorageFeatures>(
          find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES))) {
    v12.storageBuffer8BitAccess = p->storageBuffer8BitAccess;
    v12.uniformAndStorageBuffer8BitAccess = p->uniformAndStorageBuffer8BitAccess;
    v12.storagePushConstant8 = p->storagePushConstant8;
  }
  if (auto* p = cast<VkPhysicalDeviceShaderFloat16Int8Features>(
          find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES))) {
    v12.shaderFloat16 = p->shaderFloat16;
    v12.shaderInt8 = p->shaderInt8;
  }
  if (auto* p = cast<VkPhysicalDeviceShaderAtomicInt64Features>(
          find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_INT64_FEATURES))) {
    v12.shaderBufferInt64Atomics = p->shaderBufferInt64Atomics;
    v12.shaderSharedInt64Atomics = p->shaderSharedInt64Atomics;
  }
  if (auto* p = cast<VkPhysicalDeviceVulkanMemoryModelFeatures>(
          find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES)))
    v12.vulkanMemoryModel = p->vulkanMemoryModel;
  if (auto* p = cast<VkPhysicalDeviceDescriptorIndexingFeatures>(
          find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DESCRIPTOR_INDEXING_FEATURES))) {
    v12.descriptorBindingPartiallyBound = p->descriptorBindingPartiallyBound;
    v12.runtimeDescriptorArray = p->runtimeDescriptorArray;
  }
  if (auto* p = cast<VkPhysicalDeviceBufferDeviceAddressFeatures>(
          find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES))) {
    v12.bufferDeviceAddress = p->bufferDeviceAddress;
    v12.bufferDeviceAddressCaptureReplay = p->bufferDeviceAddressCaptureReplay;
  }
  if (auto* p = cast<VkPhysicalDeviceSubgroupSizeControlFeatures>(
          find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES))) {
    v13.subgroupSizeControl = p->subgroupSizeControl;
    v13.computeFullSubgroups = p->computeFullSubgroups;
  }
  if (auto* p = cast<VkPhysicalDeviceShaderIntegerDotProductFeatures>(
          find(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES)))
    v13.shaderIntegerDotProduct = p->shaderIntegerDotProduct;
}

bool Features::extension(const char* name) const {
  return std::find(present_.begin(), present_.end(), name) != present_.end();
}

std::vector<const char*> Features::enabled_extensions() const { return enabled_; }

}  // namespace klab::gpu::vulkan
