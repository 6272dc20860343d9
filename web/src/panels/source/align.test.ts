// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import { alignLines, changedPart, lineKey } from './align';

const exact = (l: string) => lineKey(l, false);
const loose = (l: string) => lineKey(l, true);

describe('alignLines', () => {
  it('puts fillers where one side has more', () => {
    const r = alignLines('a\nb\nc\n', 'a\nx\ny\nc\nd\n', exact);
    expect(r.a.text).toBe('a\nb\n\nc\n');
    expect(r.b.text).toBe('a\nx\ny\nc\nd');
    expect(r.a.states).toEqual(['same', 'changed', 'filler', 'same', 'filler']);
    expect(r.b.states).toEqual(['same', 'changed', 'only', 'same', 'only']);
    expect(r.a.numbers).toEqual([1, 2, 0, 3, 0]);
    expect(r.b.numbers).toEqual([1, 2, 3, 4, 5]);
    expect(r).toMatchObject({ stretches: [1, 4], changed: 1, onlyA: 0, onlyB: 2 });
  });
  it('has the same number of lines on both sides and loses none', () => {
    const a = Array.from({ length: 3000 }, (_, i) => `op ${(i * 7) % 501}`);
    const b = a.filter((_, i) => i % 13 !== 0).map((l, i) => (i % 17 === 0 ? l + ' x' : l));
    const r = alignLines(a.join('\n'), b.join('\n'), exact);
    expect(r.a.states.length).toBe(r.b.states.length);
    expect(r.a.text.split('\n').filter((_, i) => r.a.numbers[i] !== 0)).toEqual(a);
    expect(r.b.text.split('\n').filter((_, i) => r.b.numbers[i] !== 0)).toEqual(b);
    r.a.states.forEach((s, i) => expect(s === 'same').toBe(r.b.states[i] === 'same'));
  });
  it('finds a few real differences in long texts where much is shifted', () => {
    const a = Array.from({ length: 8000 }, (_, i) => (i % 3 === 0 ? '  NOP' : `  IADD ${(i * 2654435761) >>> 0}`));
    const b = a.flatMap((l, i) => (i % 4 === 1 ? [l.replace('IADD', 'IMUL'), '  BAR'] : [l]));
    const r = alignLines(a.join('\n'), b.join('\n'), exact);
    expect(r.a.states.filter((s) => s === 'same').length).toBeGreaterThan(5900);
    expect(r.a.text.split('\n').filter((_, i) => r.a.numbers[i] !== 0)).toEqual(a);
    expect(r.b.text.split('\n').filter((_, i) => r.b.numbers[i] !== 0)).toEqual(b);
    const linesA = r.a.text.split('\n');
    const linesB = r.b.text.split('\n');
    r.a.states.forEach((s, i) => s === 'same' && expect(linesA[i]).toBe(linesB[i]));
  });
  it('finds nothing in equal texts, and takes an empty one', () => {
    expect(alignLines('a\nb', 'a\nb', exact)).toMatchObject({ stretches: [], changed: 0 });
    expect(alignLines('', 'a', exact)).toMatchObject({ onlyB: 1, onlyA: 0 });
    expect(alignLines('', '', exact).a.states).toEqual([]);
  });
});

describe('lineKey', () => {
  it('passes over addresses and encodings', () => {
    expect(exact('        /*0010*/                   IADD3 R1, R1, -0x8, RZ ;   /* 0xfff8 */')).toBe(exact('/*0020*/ IADD3 R1, R1, -0x8, RZ ;'));
    expect(exact('IADD3 R1, R1, -0x8, RZ ;')).not.toBe(exact('IADD3 R2, R1, -0x8, RZ ;'));
  });
  it('passes over numbers of registers and ids when asked', () => {
    expect(loose('IADD3 R1, UR4, -0x8 ;')).toBe(loose('IADD3 R20, UR6, -0x8 ;'));
    expect(loose('IADD3 R1, UR4, -0x8 ;')).not.toBe(loose('IADD3 R1, UR4, -0x10 ;'));
    expect(loose('%24 = OpLoad %float %17')).toBe(loose('%31 = OpLoad %float %19'));
    expect(loose('%a = OpConstant %uint 16')).not.toBe(loose('%a = OpConstant %uint 32'));
    expect(loose('OpStore %x %uint_1')).not.toBe(loose('OpStore %x %uint_2'));
    expect(loose('%_struct_22 = OpTypeStruct %uint')).toBe(loose('%_struct_9 = OpTypeStruct %uint'));
    expect(loose('global_load_dwordx4 v[0:3], v[4:5], off')).toBe(loose('global_load_dwordx4 v[8:11], v[2:3], off'));
    expect(loose('ld.global.v4.f32 {%f1,%f2}, [%rd3];')).toBe(loose('ld.global.v4.f32 {%f5,%f6}, [%rd9];'));
    expect(loose('ld.global.v4.f32 %f1;')).not.toBe(loose('ld.global.v2.f32 %f1;'));
    expect(loose('@P0 BRA `(.L_x_3)')).toBe(loose('@P1 BRA `(.L_x_12)'));
  });
  it('takes the header of SPIR-V for equal whatever its bound', () => expect(loose('; Bound: 109')).toBe(loose('; Bound: 88')));
});

it('marks the part of a line that differs', () => {
  expect(changedPart('fmul r1, r2', 'fadd r1, r2')).toEqual({ a: [1, 4], b: [1, 4] });
  expect(changedPart('aa', 'aaa')).toEqual({ a: [2, 2], b: [2, 3] });
  expect(changedPart('', 'x')).toEqual({ a: [0, 0], b: [0, 1] });
});
