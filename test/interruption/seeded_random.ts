export { seededRandom } from '../../src/simulation/seeded_random.ts';
