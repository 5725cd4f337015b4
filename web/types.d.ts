// What the page uses of D3: the packages of Debian come without types.
declare module "d3-scale" {
  export interface Linear {
    (value: number): number;
    domain(): number[];
    domain(values: number[]): Linear;
    range(values: number[]): Linear;
    invert(value: number): number;
    ticks(count: number): number[];
  }
  export function scaleLinear(): Linear;
}
declare module "d3-axis" {
  import { Linear } from "d3-scale";
  export interface Axis {
    (selection: unknown): void;
    ticks(count: number): Axis;
    tickValues(values: number[]): Axis;
    tickFormat(format: (value: number) => string): Axis;
    tickSize(size: number): Axis;
    tickSizeInner(size: number): Axis;
    tickPadding(size: number): Axis;
  }
  export function axisBottom(scale: Linear): Axis;
  export function axisLeft(scale: Linear): Axis;
}
declare module "d3-selection" {
  export interface Selection {
    call(f: unknown): Selection;
  }
  export function select(node: Element): Selection;
}
// Newer than the TypeScript of Debian 12.
interface CanvasRenderingContext2D {
  roundRect(x: number, y: number, width: number, height: number, radius: number): void;
}
