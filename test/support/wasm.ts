/** Declared here, because TypeScript has it among the types of browsers only. */
export interface WasmMemory {
  readonly buffer: ArrayBuffer;
  grow(pages: number): number;
}

export const { Memory: WasmMemory } = (
  globalThis as unknown as { WebAssembly: { Memory: new (type: { initial: number }) => WasmMemory } }
).WebAssembly;
