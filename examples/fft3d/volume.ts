import { readFileSync, writeFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import * as nifti from 'nifti-reader-js';
import { product, UsageError, type Series, type Triple } from './geometry.js';

type Header = nifti.NIFTI1 | nifti.NIFTI2;

/** Volumes from a file, with what else it said. */
export interface NiftiSeries extends Series {
  /** The file's header: position and orientation are taken over into results. */
  header: Header;
  /** What the reader should know about how it was read; empty if there is nothing to say. */
  notes: string[];
}

type ReadValue = (view: DataView, byte: number, littleEndian: boolean) => number;

/**
 * How a value of each datatype is read, and its bytes; those not listed are no real numbers (or, as 128-bit floats, not
 * known to JavaScript).
 */
const READERS = new Map<number, [bytes: number, ReadValue]>([
  [nifti.NIFTI1.TYPE_UINT8, [1, (view, byte) => view.getUint8(byte)]],
  [nifti.NIFTI1.TYPE_INT8, [1, (view, byte) => view.getInt8(byte)]],
  [nifti.NIFTI1.TYPE_INT16, [2, (view, byte, little) => view.getInt16(byte, little)]],
  [nifti.NIFTI1.TYPE_UINT16, [2, (view, byte, little) => view.getUint16(byte, little)]],
  [nifti.NIFTI1.TYPE_INT32, [4, (view, byte, little) => view.getInt32(byte, little)]],
  [nifti.NIFTI1.TYPE_UINT32, [4, (view, byte, little) => view.getUint32(byte, little)]],
  [nifti.NIFTI1.TYPE_INT64, [8, (view, byte, little) => Number(view.getBigInt64(byte, little))]],
  [nifti.NIFTI1.TYPE_UINT64, [8, (view, byte, little) => Number(view.getBigUint64(byte, little))]],
  [nifti.NIFTI1.TYPE_FLOAT32, [4, (view, byte, little) => view.getFloat32(byte, little)]],
  [nifti.NIFTI1.TYPE_FLOAT64, [8, (view, byte, little) => view.getFloat64(byte, little)]],
]);

/** Millimetres in the file's unit of length; a file that doesn't say means millimetres. */
const MILLIMETRES = new Map([
  [nifti.NIFTI1.UNITS_METER, 1000],
  [nifti.NIFTI1.UNITS_MICRON, 0.001],
]);

/** Header and data of a single file, as the format has it: 348 bytes of header, 4 that announce no extensions. */
const DATA_OFFSET = 352;

/**
 * Reads a NIfTI-1 or NIfTI-2 file (.nii or .nii.gz, of either byte order), scaled as its header says. Values that are
 * not finite become 0, because one of them would spread over the whole spectrum.
 *
 * @param wanted volumes to read: the first ones of a series
 * @throws UsageError naming the file and what is wrong with it
 */
export function readNifti(file: string, wanted = 1): NiftiSeries {
  const fail = (reason: string): never => {
    throw new UsageError(`${file}: ${reason}`);
  };
  const bytes = readBytes(file, fail);
  if (!nifti.isNIFTI(bytes)) fail('not a NIfTI file (.nii or .nii.gz; pairs of .hdr and .img are not read)');
  const header = readHeader(bytes, fail);
  const size: Triple = [extent(header, 1), extent(header, 2), extent(header, 3)];
  const [step, read] =
    READERS.get(header.datatypeCode) ?? fail(`values of type ${typeName(header)} cannot be filtered`);
  const count = product(size);
  if (!size.every((extent) => extent > 0) || !Number.isSafeInteger(count))
    fail(`its header says ${size.join(' x ')} values`);
  const stored = header.dims.slice(4, header.dims[0] + 1).reduce((all, length) => all * Math.max(1, length), 1);
  if (wanted > stored) fail(`has ${stored} volume${stored > 1 ? 's' : ''}, not ${wanted}`);
  const present = Math.max(0, bytes.byteLength - header.vox_offset);
  if (present < wanted * count * step) {
    const shape = `${size.join(' x ')}${wanted > 1 ? ` x ${wanted}` : ''}`;
    fail(`is cut short: ${present} bytes of data for ${shape} values of ${step} bytes`);
  }
  const image = new DataView(bytes, header.vox_offset);
  const { notes, slope, intercept } = scaling(header);
  const data = new Float64Array(wanted * count);
  let notFinite = 0;
  for (let index = 0; index < data.length; index++) {
    const value = slope * read(image, index * step, header.littleEndian) + intercept;
    if (Number.isFinite(value)) data[index] = value;
    else notFinite++;
  }
  if (notFinite > 0) notes.push(`${notFinite} values that are not finite count as 0`);
  if (wanted < stored) notes.push(`the first ${wanted > 1 ? `${wanted} ` : ''}of ${stored} volumes`);
  const volumes = Array.from({ length: wanted }, (_, nth) => data.subarray(nth * count, (nth + 1) * count));
  return { size, voxel: voxelOf(header), volumes, header, notes };
}

/**
 * Writes volumes as NIfTI-1, single precision floats; compressed if the name ends in .gz.
 *
 * @param like header of the file that the volumes came from: its position, orientation and units are taken over
 */
export function writeNifti(file: string, series: Series, description: string, like?: Header): void {
  const header = new nifti.NIFTI1();
  header.littleEndian = true;
  const { size, voxel, volumes } = series;
  header.dims = [volumes.length > 1 ? 4 : 3, ...size, volumes.length, 1, 1, 1];
  header.pixDims = [1, ...voxel, 0, 0, 0, 0];
  header.datatypeCode = nifti.NIFTI1.TYPE_FLOAT32;
  header.numBitsPerVoxel = 32;
  header.vox_offset = DATA_OFFSET;
  header.scl_slope = 1;
  header.xyzt_units = nifti.NIFTI1.UNITS_MM;
  header.description = description.slice(0, 79);
  header.magic = 'n+1';
  if (like) {
    header.pixDims = like.pixDims.slice(0, 4).concat(0, 0, 0, 0);
    header.xyzt_units = like.xyzt_units & nifti.NIFTI1.SPATIAL_UNITS_MASK;
    for (const field of POSITION) header[field] = like[field];
    header.affine = like.affine;
    // The library knows one of the two transformations only, and writes it as the second.
    header.sform_code = like.sform_code >= like.qform_code ? like.sform_code : 0;
  } else {
    voxel.forEach((distance, axis) => (header.affine[axis][axis] = distance));
  }

  const count = product(size);
  const bytes = Buffer.alloc(DATA_OFFSET + 4 * volumes.length * count);
  bytes.set(new Uint8Array(header.toArrayBuffer()).subarray(0, DATA_OFFSET));
  const view = new DataView(bytes.buffer, bytes.byteOffset + DATA_OFFSET);
  volumes.forEach((data, nth) =>
    data.forEach((value, index) => view.setFloat32(4 * (nth * count + index), value, true)),
  );
  writeFileSync(file, file.endsWith('.gz') ? gzipSync(bytes) : bytes);
}

const POSITION = ['qform_code', 'quatern_b', 'quatern_c', 'quatern_d', 'qoffset_x', 'qoffset_y', 'qoffset_z'] as const;

function readBytes(file: string, fail: (reason: string) => never): ArrayBuffer {
  try {
    const stored = readFileSync(file);
    const bytes = isGzip(stored) ? gunzipSync(stored) : stored;
    // The library wants an ArrayBuffer of the file and nothing else.
    return new Uint8Array(bytes).buffer;
  } catch (error) {
    return fail(`cannot be read: ${(error as Error).message}`);
  }
}

/** The library believes the file: it reads beyond its end, and takes any number as the place of the data. */
function readHeader(bytes: ArrayBuffer, fail: (reason: string) => never): Header {
  let header: Header | null = null;
  try {
    header = nifti.readHeader(bytes);
  } catch {
    // It ends in the middle of the header.
  }
  if (header === null) return fail('its header is cut short');
  const { vox_offset: data, dims } = header;
  if (!Number.isInteger(data) || data < 0 || data > bytes.byteLength)
    fail(`its header says that data begin at ${data}`);
  if (dims[0] < 1 || dims[0] > 7) fail(`its header says ${dims[0]} dimensions`);
  return header;
}

const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

const extent = (header: Header, axis: number): number => (axis <= header.dims[0] ? header.dims[axis] : 1);

/** Of NIfTI-2 the library knows no names. */
const typeName = (header: Header): string => {
  const name = header instanceof nifti.NIFTI1 ? `${header.getDatatypeCodeString(header.datatypeCode)} ` : '';
  return `${name}(datatype ${header.datatypeCode})`;
};

function scaling(header: Header): { notes: string[]; slope: number; intercept: number } {
  // The standard: a slope of 0 means that the values are as they are. Broken files have NaN there.
  const { scl_slope: slope, scl_inter: intercept } = header;
  if (slope === 0) return { notes: [], slope: 1, intercept: 0 };
  if (Number.isFinite(slope) && Number.isFinite(intercept)) return { notes: [], slope, intercept };
  return { notes: ['its scaling is not finite and was left out'], slope: 1, intercept: 0 };
}

function voxelOf(header: Header): Triple {
  const unit = MILLIMETRES.get(header.xyzt_units & nifti.NIFTI1.SPATIAL_UNITS_MASK) ?? 1;
  const distance = (axis: number) => {
    const told = Math.abs(header.pixDims[axis]) * unit;
    return Number.isFinite(told) && told > 0 ? told : 1;
  };
  return [distance(1), distance(2), distance(3)];
}
