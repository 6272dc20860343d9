// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the virtual table: which rows lie where.

export interface Column<Key extends string = string> {
  key: Key;
  title: string;
  /** As CSS grid has it; fixed, so that nothing moves when numbers change: "90px", "minmax(160px, 2fr)". */
  width: string;
  number?: boolean;
  sortable?: boolean;
  /** Width where there is little room. */
  narrow?: string;
  /** Left out where there is little room. */
  wide?: boolean;
  help?: string;
}

/** The least that the columns need: "90px" and "minmax(160px, 2fr)" say it. */
export const leastWidth = (columns: readonly Column[]): number => columns.reduce((sum, column) => sum + Number(/(\d+)px/.exec(column.width)?.[1] ?? 0), 0);

export interface Sort<Key extends string = string> {
  key: Key;
  descending: boolean;
}

/** Browsers do not lay out what is higher; Firefox ends near 17.8 million, Chromium at 33.5 million device pixels. */
export const kMostHeight = 15_000_000;

/** Where a list of `total` rows of `rowHeight` lies in a box that scrolls over at most kMostHeight. */
export class Scale {
  readonly whole: number; // height of all rows
  readonly height: number; // that the box scrolls over

  constructor(readonly total: number, readonly rowHeight: number, readonly view: number) {
    this.whole = total * rowHeight;
    this.height = Math.min(this.whole, kMostHeight);
  }

  /** True when the scroll bar moves over more than it shows. */
  get scaled(): boolean {
    return this.whole > this.height;
  }
  private get reach(): number {
    return Math.max(0, this.height - this.view);
  }
  private get wholeReach(): number {
    return Math.max(0, this.whole - this.view);
  }
  /** Of the list, for a position of the scroll bar. */
  top(scrollTop: number): number {
    return this.scaled && this.reach > 0 ? (scrollTop / this.reach) * this.wholeReach : scrollTop;
  }
  /** Of the scroll bar, for a position in the list. */
  scrollTop(top: number): number {
    const clamped = Math.min(Math.max(0, top), this.wholeReach);
    return this.scaled && this.wholeReach > 0 ? (clamped / this.wholeReach) * this.reach : clamped;
  }
  /** Rows to draw around `top`, with some to spare. */
  rows(top: number, spare = 6): [number, number] {
    const first = Math.max(0, Math.floor(top / this.rowHeight) - spare);
    return [first, Math.min(this.total, Math.ceil((top + this.view) / this.rowHeight) + spare)];
  }
}
