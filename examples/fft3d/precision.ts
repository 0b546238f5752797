/** Of the numbers that are sent. All are computed in double precision. */
export type Precision = 'double' | 'single';

/** Numbers as they are sent: in the precision of the computation, or in half the bytes. */
export type Floats = Float64Array | Float32Array;
