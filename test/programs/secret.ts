/** Prints the secret of the job that this rank belongs to. */
import { say } from './scenario.js';

say(process.env['NBC_SECRET'] ?? 'none');
