import js from '@eslint/js';
import tseslint from 'typescript-eslint';
import importX from 'eslint-plugin-import-x';
import { createTypeScriptImportResolver } from 'eslint-import-resolver-typescript';

// The import rule of docs/structures.md: what each folder of src/ may import besides itself.
// `observe`, `protocol` and the types of `streams` are open to all.
const OPEN = ['observe', 'protocol', 'streams'];
const MAY_IMPORT = {
  observe: [],
  protocol: [],
  streams: [],
  'engine/model': [],
  'engine/memory': ['engine/model'],
  'engine/cache': ['engine/model', 'engine/memory'],
  'engine/transport': ['engine/model'],
  'engine/parallel': ['engine/model'],
  'engine/compile': ['engine/model'],
  'engine/scheduler': ['engine/model', 'engine/memory', 'engine/cache', 'engine/parallel'],
  'engine/programs': ['engine/model', 'engine/scheduler'],
  'engine/workers': ['engine/model', 'engine/memory', 'engine/cache', 'engine/transport', 'engine/compile'],
  'engine/runtime': ['engine'],
  artifacts: [],
  media: ['artifacts', 'native'],
  storage: [],
  'realtime-programs': ['engine'],
  'inline-programs': ['engine', 'realtime-programs'],
  sessions: ['realtime-programs', 'engine', 'media', 'artifacts'],
  integrations: ['sessions', 'realtime-programs', 'engine', 'media', 'artifacts'],
  simulation: ['realtime-programs', 'engine', 'media'],
  cli: ['api', 'storage', 'sessions', 'simulation', 'realtime-programs', 'engine'],
  api: ['integrations', 'sessions', 'realtime-programs', 'engine', 'media', 'artifacts'],
};

const folders = Object.keys(MAY_IMPORT);
const within = (folder, allowed) => folder === allowed || folder.startsWith(`${allowed}/`) || allowed.startsWith(`${folder}/`);
const zones = folders.map((target) => {
  const allowed = [...(target === 'observe' || target === 'protocol' ? [] : OPEN), ...MAY_IMPORT[target]];
  const from = folders
    .filter((folder) => folder !== target && !allowed.some((a) => within(folder, a)))
    .map((folder) => `./src/${folder}`);
  if (!allowed.includes('native')) from.push('./native');
  return { target: `./src/${target}`, from, message: `src/${target} may not import this; see docs/structures.md` };
});

export default tseslint.config(
  { ignores: ['node_modules', 'dist', 'web-client/dist', 'native/build', 'docs/api', 'bench/out', 'test/out', 'python'] },
  js.configs.recommended,
  ...tseslint.configs.recommended,
  {
    files: ['**/*.ts', '**/*.js'],
    plugins: { 'import-x': importX },
    settings: { 'import-x/resolver-next': [createTypeScriptImportResolver({ project: ['tsconfig.json', 'web-client/tsconfig.json'] })] },
    rules: {
      'import-x/no-restricted-paths': ['error', { zones }],
      'import-x/no-cycle': ['error', { maxDepth: 8 }],
      'no-console': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      'max-lines': ['warn', { max: 500, skipBlankLines: true, skipComments: true }],
    },
  },
  { files: ['test/**', 'bench/**', 'probe/**', 'scripts/**', 'examples/**'], rules: { 'no-console': 'off' } },
  { files: ['scripts/*.js', 'eslint.config.js'], languageOptions: { globals: { process: 'readonly', console: 'readonly' } } },
);
