// SPDX-License-Identifier: Apache-2.0
import type { Extension } from '@codemirror/state';
import { cpp } from '@codemirror/lang-cpp';
import { StreamLanguage } from '@codemirror/language';
import { clike } from '@codemirror/legacy-modes/mode/clike';
import { assembly } from './assembly';

// The library's own shader mode knows the GLSL of 2010: no uint, no layout, no buffer, no shared.
const words = (text: string) => Object.fromEntries(text.trim().split(/\s+/).map((word) => [word, true]));
const numbered = (stems: string, counts: string) => stems.split(' ').flatMap((stem) => counts.split(' ').map((n) => stem + n)).join(' ');
const glsl = StreamLanguage.define(
  clike({
    name: 'glsl',
    keywords: words(`layout uniform buffer shared const in out inout readonly writeonly coherent volatile restrict precise invariant highp mediump lowp struct
      if else for while do switch case default break continue return discard subgroupuniformEXT nonuniformEXT flat smooth centroid`),
    types: words(`void bool int uint float double float16_t float32_t float64_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t atomic_uint
      ${numbered('vec bvec ivec uvec dvec f16vec i8vec i16vec u8vec u16vec i64vec u64vec', '2 3 4')} ${numbered('mat dmat f16mat', '2 3 4 2x2 2x3 2x4 3x2 3x3 3x4 4x2 4x3 4x4')}
      ${numbered('sampler isampler usampler image iimage uimage texture itexture utexture', '1D 2D 3D Cube 2DArray Buffer')} coopmat fcoopmatNV`),
    blockKeywords: words('if else for while do switch struct'),
    builtin: words(`barrier memoryBarrier memoryBarrierShared memoryBarrierBuffer groupMemoryBarrier atomicAdd atomicMin atomicMax atomicAnd atomicOr atomicXor atomicExchange atomicCompSwap
      radians degrees sin cos tan asin acos atan sinh cosh tanh pow exp log exp2 log2 sqrt inversesqrt abs sign floor trunc round roundEven ceil fract mod modf min max clamp mix step smoothstep
      isnan isinf fma frexp ldexp length distance dot cross normalize transpose inverse any all not bitfieldExtract bitfieldInsert bitCount findLSB findMSB
      floatBitsToInt floatBitsToUint intBitsToFloat uintBitsToFloat packHalf2x16 unpackHalf2x16 packUnorm4x8 unpackUnorm4x8 texture texelFetch imageLoad imageStore imageAtomicAdd
      subgroupAdd subgroupMul subgroupMin subgroupMax subgroupAnd subgroupOr subgroupBroadcast subgroupBroadcastFirst subgroupShuffle subgroupShuffleXor subgroupShuffleUp subgroupShuffleDown
      subgroupBallot subgroupElect subgroupBarrier subgroupInclusiveAdd subgroupExclusiveAdd coopMatLoad coopMatStore coopMatMulAdd`),
    atoms: words(`true false gl_GlobalInvocationID gl_LocalInvocationID gl_LocalInvocationIndex gl_WorkGroupID gl_WorkGroupSize gl_NumWorkGroups
      gl_SubgroupID gl_SubgroupSize gl_SubgroupInvocationID gl_NumSubgroups`),
    indentSwitch: false,
    hooks: {
      '#': (stream: { skipToEnd(): void }, state: { startOfLine: boolean }) => {
        if (!state.startOfLine) return false;
        stream.skipToEnd();
        return 'meta';
      },
    },
  }),
);

/** By session.build's word for a language, or "assembly" for a disassembly. */
export function languageExtension(language: string): Extension {
  switch (language) {
    case 'glsl': return glsl;
    case 'cuda': case 'hip': return cpp();
    case 'ptx': case 'spirv': case 'assembly': return assembly;
    default: return [];
  }
}
