/** The 3D-FFT example: its parts by themselves, and the whole program on several ranks. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { decode } from 'fast-png';
import { NIFTI1 } from 'nifti-reader-js';
import { correctBorder, gaussianFilter, paddedGrid, periodicGrid, sigmaOf } from '../examples/fft3d/filter.js';
import { product, UsageError, volumesOf, type Triple, type Volume } from '../examples/fft3d/geometry.js';
import { Lines } from '../examples/fft3d/lines.js';
import { phantom } from '../examples/fft3d/phantom.js';
import { RealLines } from '../examples/fft3d/real.js';
import { summarise, type Timing } from '../examples/fft3d/report.js';
import { SerialFft3d } from '../examples/fft3d/serial.js';
import { Slabs, TransposeLayout } from '../examples/fft3d/slab.js';
import { check, energy, MaxError, parsevalError } from '../examples/fft3d/verify.js';
import { readNifti, writeNifti } from '../examples/fft3d/volume.js';
import { BRIEF } from './helpers.js';
import { run } from './support/commands.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const MAIN = join(ROOT, 'out/examples/fft3d/main.js');
const NBCRUN = join(ROOT, 'dist/cli/nbcrun.js');

describe('examples/fft3d', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'nbc-fft3d-'));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  describe('verify', () => {
    const expected = Float64Array.from({ length: 1000 }, (_, index) => Math.sin(index) * 100);
    const errorOf = (change: (values: Float64Array) => unknown) => {
      const actual = expected.slice();
      change(actual);
      return new MaxError().addAll(actual, expected).relative;
    };

    it('accepts equal numbers and rounding errors', () => {
      assert.ok(
        check(
          '',
          errorOf((values) => values),
        ).ok,
      );
      assert.ok(
        check(
          '',
          errorOf((values) => values.forEach((value, index) => (values[index] = value * (1 + 1e-15)))),
        ).ok,
      );
    });

    it('finds one wrong number in a thousand', () => {
      assert.equal(
        check(
          '',
          errorOf((values) => (values[500] += 1e-3)),
        ).ok,
        false,
      );
      assert.equal(
        check(
          '',
          errorOf((values) => (values[999] = 0)),
        ).ok,
        false,
      );
    });

    it('finds two numbers that changed places', () => {
      assert.equal(
        check(
          '',
          errorOf((values) => ([values[3], values[4]] = [values[4], values[3]])),
        ).ok,
        false,
      );
    });

    it('finds what is not a number, wherever it is', () => {
      for (const index of [0, 500, 999])
        assert.equal(
          check(
            '',
            errorOf((values) => (values[index] = NaN)),
          ).ok,
          false,
        );
    });

    it('finds a result of zeros, and one that should be zeros', () => {
      assert.equal(
        check(
          '',
          errorOf((values) => values.fill(0)),
        ).ok,
        false,
      );
      assert.equal(check('', new MaxError().addAll(Float64Array.of(1), Float64Array.of(0)).relative).ok, false);
    });

    it('refuses arrays of different lengths', () => {
      assert.throws(() => new MaxError().addAll(expected.subarray(1), expected), RangeError);
    });

    it("finds a spectrum that breaks Parseval's theorem", () => {
      const lines = new Lines(64, 'forward');
      const [line, spectrum] = [expected.slice(0, 128), new Float64Array(128)];
      lines.transform(spectrum, line);
      assert.ok(check('', parsevalError(energy(line), energy(spectrum), 64)).ok);
      spectrum[17] += 0.01;
      assert.equal(check('', parsevalError(energy(line), energy(spectrum), 64)).ok, false);
      assert.equal(check('', parsevalError(1, NaN, 64)).ok, false);
    });
  });

  describe('lines', () => {
    /** The definition of the discrete Fourier transform. */
    const dft = (line: Float64Array, sign: number): Float64Array => {
      const points = line.length / 2;
      const result = new Float64Array(line.length);
      for (let k = 0; k < points; k++) {
        for (let n = 0; n < points; n++) {
          const angle = (sign * 2 * Math.PI * ((k * n) % points)) / points;
          const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
          result[2 * k] += line[2 * n] * cos - line[2 * n + 1] * sin;
          result[2 * k + 1] += line[2 * n] * sin + line[2 * n + 1] * cos;
        }
      }
      return result;
    };

    for (const points of [2, 4, 8, 16, 32, 64, 128]) {
      it(`${points} points as the definition says`, () => {
        const line = Float64Array.from({ length: 2 * points }, (_, index) => Math.cos(3 * index ** 2));
        const target = new Float64Array(2 * points);
        new Lines(points, 'forward').transform(target, line);
        assert.ok(check('', new MaxError().addAll(target, dft(line, -1)).relative).ok, 'forward');
        new Lines(points, 'inverse').transform(target, line);
        const inverse = dft(line, 1).map((value) => value / points);
        assert.ok(check('', new MaxError().addAll(target, inverse).relative).ok, 'inverse');
      });

      it(`${points} real points, two lines at a time, there and back`, () => {
        const stored = points - (points >> 2); // the rest is zero
        const lines = Float64Array.from({ length: 2 * stored }, (_, index) => Math.cos(3 * index ** 2));
        const half = new RealLines(points, stored);
        assert.equal(half.columns, points / 2 + 1);
        const length = 2 * half.columns;
        const spectra = new Float64Array(2 * length);
        const back = new Float64Array(lines.length);
        const expected = (begin: number) => {
          const complex = new Float64Array(2 * points);
          for (let index = 0; index < stored; index++) complex[2 * index] = lines[begin + index];
          return dft(complex, -1).subarray(0, length);
        };
        for (const [a, b] of [
          [0, stored],
          [0, 0],
          [stored, stored],
        ]) {
          const [toA, toB] = [a, b].map((begin) => (begin === 0 ? 0 : length));
          spectra.fill(NaN);
          half.forward(lines, a, b, spectra, toA, toB);
          for (const [begin, at] of [
            [a, toA],
            [b, toB],
          ]) {
            const error = new MaxError().addAll(spectra.subarray(at, at + length), expected(begin)).relative;
            assert.ok(check('', error).ok, `forward: ${error}`);
          }
          back.fill(NaN);
          half.inverse(spectra, toA, toB, back, a, b);
          for (const begin of [a, b]) {
            const [actual, original] = [back, lines].map((all) => all.subarray(begin, begin + stored));
            assert.ok(check('', new MaxError().addAll(actual, original).relative).ok, 'inverse');
          }
        }
      });
    }
  });

  describe('transpose layout', () => {
    for (const ranks of [1, 2, 3, 4, 7]) {
      for (const [from, to, chunk] of [
        [8, 8, 1],
        [9, 4, 2],
        [5, 16, 3],
        [1, 2, 1],
        [13, 11, 20],
      ]) {
        it(`${from} x ${to} on ${ranks} ranks, ${chunk} a chunk: every row arrives where it is looked for`, () => {
          const layouts = Array.from(
            { length: ranks },
            (_, rank) => new TransposeLayout(rank, new Slabs(from, ranks), new Slabs(to, ranks), 1, chunk),
          );
          const received = layouts.map((layout) => new Float64Array(layout.receiveLength).fill(-1));
          for (const layout of layouts) {
            for (let part = 0; part < layout.chunks; part++) {
              const send = new Float64Array(layout.sendLength);
              for (let nth = 0; nth < layout.sizeOf(part); nth++) {
                const index = layout.from.first(layout.rank) + part * chunk + nth;
                layout.sendRows(nth).forEach((at, other) => (send[at] = 1000 * index + other));
              }
              for (const target of layouts) {
                const { shape, strides, offset } = layout.sendBox(part, target.rank);
                const [begin, end] = target.receiveRange(part, layout.rank);
                assert.equal(shape[0] * shape[1], end - begin);
                for (let at = begin; at < end; at++) {
                  const [outer, inner] = [Math.floor((at - begin) / shape[1]), (at - begin) % shape[1]];
                  received[target.rank][at] = send[offset + outer * strides[0] + inner * strides[1]];
                }
              }
            }
          }
          for (let rank = 0; rank < ranks; rank++) {
            const layout = layouts[rank];
            for (let nth = 0; nth < layout.to.count(rank); nth++) {
              const rows = layout.receivedRows(nth).map((at) => received[rank][at]);
              const other = layout.to.first(rank) + nth;
              assert.deepEqual(
                rows,
                Array.from({ length: from }, (_, index) => 1000 * index + other),
              );
            }
          }
        });
      }
    }
  });

  describe('filter', () => {
    const smooth = (volume: Volume, fwhm: number): Float64Array => {
      const grid = paddedGrid(volume.size, volume.voxel, sigmaOf(fwhm));
      const serial = new SerialFft3d(volume, grid);
      serial.forward();
      serial.filter(sigmaOf(fwhm));
      serial.inverse();
      const result = serial.crop();
      correctBorder(result, gaussianFilter(volume.size, grid, volume.voxel, sigmaOf(fwhm)), 0, volume.size[2]);
      return result;
    };

    it('makes a point as wide as asked for, in millimetres', () => {
      const size: Triple = [41, 21, 21];
      const data = new Float64Array(product(size));
      const centre = (10 * 21 + 10) * 41 + 20;
      data[centre] = 1;
      const result = smooth({ size, voxel: [2, 4, 4], data }, 12);
      // At half the width from the centre, 6 mm or 3 voxels along x, there is half the height.
      assert.ok(Math.abs(result[centre + 3] / result[centre] - 0.5) < 1e-3);
      const sum = result.reduce((all, value) => all + value, 0);
      assert.ok(Math.abs(sum - 1) < 1e-3, `weight ${sum}`);
    });

    it('leaves a constant volume constant, up to its borders', () => {
      const size: Triple = [13, 9, 5];
      const result = smooth({ size, voxel: [1, 2, 3], data: new Float64Array(product(size)).fill(7) }, 8);
      for (const value of result) assert.ok(Math.abs(value - 7) < 1e-9);
    });

    it('with a width of 0 changes nothing', () => {
      const volume = phantom([9, 8, 7], [1, 1, 1]);
      assert.ok(check('', new MaxError().addAll(smooth(volume, 0), volume.data).relative).ok);
    });

    it('pads to powers of two that keep opposite faces apart', () => {
      assert.deepEqual(paddedGrid([181, 217, 181], [1, 1, 1], sigmaOf(8)), [256, 256, 256]);
      assert.deepEqual(paddedGrid([256, 60, 1], [1, 1, 1], sigmaOf(8)), [512, 128, 16]);
      assert.deepEqual(periodicGrid([256, 2, 16]), [256, 2, 16]);
      assert.throws(() => periodicGrid([256, 2, 15]), /along z it is 15/);
    });
  });

  describe('volume', () => {
    const TYPES: [
      name: string,
      code: number,
      bytes: number,
      write: (view: DataView, at: number, value: number, little: boolean) => void,
    ][] = [
      ['uint8', NIFTI1.TYPE_UINT8, 1, (view, at, value) => view.setUint8(at, value)],
      ['int8', NIFTI1.TYPE_INT8, 1, (view, at, value) => view.setInt8(at, value)],
      ['int16', NIFTI1.TYPE_INT16, 2, (view, at, value, little) => view.setInt16(at, value, little)],
      ['uint16', NIFTI1.TYPE_UINT16, 2, (view, at, value, little) => view.setUint16(at, value, little)],
      ['int32', NIFTI1.TYPE_INT32, 4, (view, at, value, little) => view.setInt32(at, value, little)],
      ['uint32', NIFTI1.TYPE_UINT32, 4, (view, at, value, little) => view.setUint32(at, value, little)],
      ['int64', NIFTI1.TYPE_INT64, 8, (view, at, value, little) => view.setBigInt64(at, BigInt(value), little)],
      ['uint64', NIFTI1.TYPE_UINT64, 8, (view, at, value, little) => view.setBigUint64(at, BigInt(value), little)],
      ['float32', NIFTI1.TYPE_FLOAT32, 4, (view, at, value, little) => view.setFloat32(at, value, little)],
      ['float64', NIFTI1.TYPE_FLOAT64, 8, (view, at, value, little) => view.setFloat64(at, value, little)],
    ];

    /** A file of the values 0, 1, 2, … */
    const nifti = (type: number, little: boolean, change: (header: NIFTI1) => unknown = () => undefined): Buffer => {
      const [, code, bytes, write] = TYPES[type];
      const header = new NIFTI1();
      header.littleEndian = little;
      Object.assign(header, { dims: [3, 4, 3, 2, 1, 1, 1, 1], pixDims: [1, 1.5, 2, 2.5, 0, 0, 0, 0] });
      Object.assign(header, { datatypeCode: code, numBitsPerVoxel: 8 * bytes, vox_offset: 352, magic: 'n+1' });
      change(header);
      const file = Buffer.alloc(352 + 24 * bytes);
      file.set(new Uint8Array(header.toArrayBuffer()));
      const view = new DataView(file.buffer, file.byteOffset + 352);
      for (let index = 0; index < 24; index++) write(view, index * bytes, index, little);
      return file;
    };
    const read = (file: Buffer, volumes = 1) => {
      const name = join(folder, 'volume.nii');
      writeFileSync(name, file);
      return readNifti(name, volumes);
    };
    const count = Array.from({ length: 24 }, (_, index) => index);

    TYPES.forEach(([name], type) => {
      it(`reads ${name} of both byte orders`, () => {
        for (const little of [true, false]) {
          const volume = read(nifti(type, little));
          assert.deepEqual([...volume.volumes[0]], count);
          assert.deepEqual([volume.size, volume.voxel, volume.notes], [[4, 3, 2], [1.5, 2, 2.5], []]);
        }
      });
    });

    it('scales values as the header says, and converts units of length', () => {
      const volume = read(
        nifti(2, false, (header) => Object.assign(header, { scl_slope: 0.5, scl_inter: -3, xyzt_units: 1 })),
      );
      assert.deepEqual(
        [...volume.volumes[0]],
        count.map((value) => 0.5 * value - 3),
      );
      assert.deepEqual(volume.voxel, [1500, 2000, 2500]);
    });

    it('reads compressed files', () => {
      assert.deepEqual([...read(gzipSync(nifti(4, true))).volumes[0]], count);
    });

    it('takes the first volume of a series, and says so', () => {
      const volume = read(nifti(0, true, (header) => (header.dims = [4, 2, 2, 2, 3, 1, 1, 1])));
      assert.deepEqual([...volume.volumes[0]], count.slice(0, 8));
      assert.deepEqual(volume.notes, ['the first of 3 volumes']);
    });

    it('takes as many volumes of a series as are wanted, and writes them', () => {
      const file = nifti(8, true, (header) => (header.dims = [4, 2, 2, 2, 3, 1, 1, 1]));
      const parts = [0, 8, 16].map((begin) => count.slice(begin, begin + 8));
      const two = read(file, 2);
      assert.deepEqual(
        two.volumes.map((data) => [...data]),
        parts.slice(0, 2),
      );
      assert.deepEqual(two.notes, ['the first 2 of 3 volumes']);
      const all = read(file, 3);
      assert.deepEqual(all.notes, []);
      writeNifti(join(folder, 'series.nii'), all, 'a series');
      const copy = readNifti(join(folder, 'series.nii'), 3);
      assert.deepEqual(
        copy.volumes.map((data) => [...data]),
        parts,
      );
      assert.throws(() => read(file, 4), /volume.nii: has 3 volumes, not 4/);
      assert.throws(
        () => read(file.subarray(0, 352 + 60), 2),
        /cut short: 60 bytes of data for 2 x 2 x 2 x 2 values of 4 bytes/,
      );
    });

    it('reads a flat image', () => {
      assert.deepEqual(read(nifti(0, true, (header) => (header.dims = [2, 6, 4, 0, 0, 0, 0, 0]))).size, [6, 4, 1]);
    });

    it('counts values that are not finite as 0, and says so', () => {
      const file = nifti(8, true);
      file.writeFloatLE(NaN, 352 + 4 * 5);
      file.writeFloatLE(Infinity, 352 + 4 * 6);
      const volume = read(file);
      assert.deepEqual(
        [...volume.volumes[0]],
        count.map((value) => (value === 5 || value === 6 ? 0 : value)),
      );
      assert.deepEqual(volume.notes, ['2 values that are not finite count as 0']);
    });

    it('says what is wrong with a file', () => {
      const broken: [Buffer, RegExp][] = [
        [Buffer.alloc(0), /not a NIfTI file/],
        [Buffer.alloc(1000), /not a NIfTI file/],
        [nifti(4, true).subarray(0, 360), /cut short: 8 bytes of data for 4 x 3 x 2 values of 4 bytes/],
        [gzipSync(nifti(4, true)).subarray(0, 80), /cannot be read: unexpected end of file/],
        [
          nifti(4, true, (header) => (header.datatypeCode = NIFTI1.TYPE_RGB24)),
          /values of type RGB.* cannot be filtered/,
        ],
        [nifti(4, true, (header) => (header.dims = [3, 4, 0, 2, 1, 1, 1, 1])), /its header says 4 x 0 x 2 values/],
      ];
      for (const [file, message] of broken) {
        assert.throws(
          () => read(file),
          (error) => error instanceof UsageError && message.test(error.message),
          `${message}`,
        );
      }
      assert.throws(() => readNifti(join(folder, 'absent.nii')), /absent.nii: cannot be read: ENOENT/);
    });

    it('writes what it reads, with position and units of the original', () => {
      const original = read(
        nifti(8, false, (header) => {
          Object.assign(header, { sform_code: 2, qform_code: 1, quatern_b: 0.5, qoffset_x: -7, xyzt_units: 3 });
          header.affine = [
            [0, 2, 0, -5],
            [1, 0, 0, 6],
            [0, 0, 3, 7],
            [0, 0, 0, 1],
          ];
        }),
      );
      for (const name of ['copy.nii', 'copy.nii.gz']) {
        writeNifti(join(folder, name), original, 'a copy', original.header);
        const copy = readNifti(join(folder, name));
        assert.deepEqual(copy.volumes, original.volumes);
        assert.deepEqual([copy.size, copy.voxel], [original.size, original.voxel]);
        for (const field of ['affine', 'sform_code', 'qform_code', 'quatern_b', 'qoffset_x', 'xyzt_units'] as const) {
          assert.deepEqual(copy.header[field], original.header[field], field);
        }
      }
    });
  });

  describe('report', () => {
    it('takes the slowest rank of each repetition and the median repetition', () => {
      const timing = (total: number, wait: number): Timing => ({ total, start: 1, test: 0, wait });
      const ranks = [timing(10, 1), timing(11, 9), timing(12, 5), timing(13, 4), timing(10, 2), timing(19, 3)];
      assert.deepEqual(summarise(ranks, 3), timing(19, 5));
    });
  });

  describe('on several ranks', () => {
    const size: Triple = [20, 13, 9];
    const fwhm = 7;
    /** Runs the example; with no ranks, without the launcher. */
    const fft = async (ranks: number | undefined, ...options: string[]) => {
      const command = ranks === undefined ? [MAIN] : [NBCRUN, '-n', String(ranks), MAIN];
      const { code, stdout, stderr } = await run(process.execPath, [...command, ...options]);
      return { code, stdout, stderr, all: stdout + stderr };
    };

    /** The filter by its definition: an average with Gaussian weights over the voxels that there are. */
    const average = ({ size: [nx, ny, nz], voxel, data }: Volume, sigma: number): Float64Array => {
      let values = data;
      [
        [nx, 1],
        [ny, nx],
        [nz, nx * ny],
      ].forEach(([length, stride], axis) => {
        values = values.map((_, at) => {
          const index = Math.floor(at / stride) % length;
          let [sum, weights] = [0, 0];
          for (let other = 0; other < length; other++) {
            const weight = Math.exp(-(((other - index) * voxel[axis]) ** 2) / (2 * sigma ** 2));
            sum += weight * values[at + (other - index) * stride];
            weights += weight;
          }
          return sum / weights;
        });
      });
      return values;
    };

    const jobs: [number | undefined, ...string[]][] = [
      [undefined],
      [3, '--buffers', 'plain', '--variant', 'nonblocking', '--check', 'parseval'],
      [3, '--volumes', '2', '--depth', '2', '--test', '--format', 'nii'],
      [2, '--precision', 'single', '--buffers', 'plain'],
      [1, '--buffers', 'plain'],
      [3, '--planes', '2', '--depth', '1', '--test'],
      [4, '--format', 'nii', '--depth', '5'],
      [2, '--volumes', '3', '--planes', '2'],
      [3, '--volumes', '2', '--precision', 'single'],
    ];
    for (const [ranks, ...options] of BRIEF ? jobs.slice(0, 4) : jobs) {
      const title = ranks === undefined ? 'without a launcher' : `on ${ranks} rank${ranks > 1 ? 's' : ''}`;
      it(`filters a phantom ${title} ${options.join(' ')}`, async () => {
        const output = mkdtempSync(join(folder, 'output-'));
        const result = await fft(
          ranks,
          '--grid',
          size.join('x'),
          '--fwhm',
          `${fwhm}`,
          '--repetitions',
          '2',
          '--output',
          output,
          ...options,
        );
        assert.equal(result.code, 0, result.all);
        assert.match(result.stdout, /^verified$/m, result.all);
        assert.doesNotMatch(result.all, /WRONG|NaN/);
        assert.equal(result.stdout.match(/^verified$/gm)?.length, 1, 'said once, not by every rank');

        const format = options.includes('nii') ? 'nii' : 'nii.gz';
        const files = ['after.png', 'before.png', `filtered.${format}`, `phantom.${format}`];
        assert.deepEqual(readdirSync(output).sort(), files);
        const volumes = options.includes('--volumes') ? Number(options[options.indexOf('--volumes') + 1]) : 1;
        const before = volumesOf(readNifti(join(output, `phantom.${format}`), volumes));
        const after = volumesOf(readNifti(join(output, `filtered.${format}`), volumes));
        before.forEach((volume, index) => {
          assert.deepEqual(after[index].size, size);
          const error = new MaxError().addAll(after[index].data, average(volume, sigmaOf(fwhm))).relative;
          assert.ok(error < 1e-3, `volume ${index} differs from an average with Gaussian weights by ${error}`);
          if (index > 0) assert.notDeepEqual(volume.data, before[0].data);
        });

        const pictures = ['before.png', 'after.png'].map((name) => decode(readFileSync(join(output, name))));
        for (const { width, height, channels } of pictures)
          assert.deepEqual([width, height, channels], [size[0], size[1], 1]);
        const roughness = pictures.map(({ data }) => {
          const greys = Array.from(data);
          return greys.slice(1).reduce((sum, grey, index) => sum + Math.abs(grey - greys[index]), 0);
        });
        assert.ok(
          roughness[1] < roughness[0] / 2,
          `neighbouring pixels differ by ${roughness[0]} before, ${roughness[1]} after`,
        );
      });
    }

    it('sends half as much in single precision, with an error of that size', async () => {
      const found: { kibibytes: number; error: number }[] = [];
      for (const precision of ['double', 'single']) {
        const { code, all } = await fft(
          2,
          '--grid',
          '16',
          '--planes',
          '4',
          '--precision',
          precision,
          '--repetitions',
          '1',
          '--output',
          folder,
        );
        assert.equal(code, 0, all);
        const [, kibibytes] = /up to ([\d.]+) KiB to each rank, .* (?:double|single) precision/.exec(all)!;
        const [, error] = /^result against serial +(\S+) +ok$/m.exec(all)!;
        found.push({ kibibytes: Number(kibibytes), error: Number(error) });
      }
      assert.equal(found[1].kibibytes, found[0].kibibytes / 2);
      assert.ok(found[0].error < 1e-13 && found[1].error > 1e-9, JSON.stringify(found));
    });

    it('filters a file, and the result stays where the file was', async () => {
      const input = join(folder, 'input.nii.gz');
      const volume = phantom([9, 17, 6], [2, 1.5, 1]);
      writeNifti(input, { ...volume, volumes: [volume.data] }, 'for the test');
      const output = join(folder, 'from-file');
      const result = await fft(4, '--input', input, '--output', output, '--repetitions', '1');
      assert.equal(result.code, 0, result.all);
      const filtered = readNifti(join(output, 'filtered.nii.gz'));
      assert.deepEqual(filtered.voxel, volume.voxel);
      assert.ok(new MaxError().addAll(filtered.volumes[0], average(volume, sigmaOf(8))).relative < 1e-3);
    });

    it('tells a mistake once, and fails', async () => {
      for (const [options, message] of [
        [['--input', join(folder, 'absent.nii')], /^fft3d: .*absent.nii: cannot be read: ENOENT/gm],
        [['--grid', '8', '--slice', '8'], /^fft3d: --slice 8: the volume's planes are 0 to 7$/gm],
        [['--fwhm', '-1'], /^error: option '--fwhm <mm>' argument '-1' is invalid/gm],
        [
          ['--grid', '8', '--input', 'x'],
          /^error: option '--input <file>' cannot be used with option '--grid <sizes>'/gm,
        ],
      ] as [string[], RegExp][]) {
        const result = await fft(3, ...options);
        assert.notEqual(result.code, 0, result.all);
        assert.equal(result.all.match(message)?.length, 1, result.all);
        assert.doesNotMatch(result.all, /^\s+at /m, 'no stack');
      }
    });

    it('--help is printed once', async () => {
      const result = await fft(3, '--help');
      assert.equal(result.code, 0, result.all);
      assert.equal(result.stdout.match(/^Usage: fft3d/gm)?.length, 1, result.all);
    });
  });
});
