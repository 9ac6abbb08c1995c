import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ApiKeys } from '../../src/api/ApiKeys.ts';
import { DEFAULT_CONFIG } from '../../src/api/config_schema.ts';
import { ConfigError, environmentVariables, loadConfig, redactConfig } from '../../src/api/load_config.ts';
import { mediaOptions } from '../../src/api/media_options.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const directory = mkdtempSync(join(tmpdir(), 'segue-config-'));
after(() => rmSync(directory, { recursive: true, force: true }));

function load(yaml: string, env: Record<string, string> = {}) {
  writeFileSync(join(directory, 'segue.config.yaml'), yaml);
  return loadConfig({ directory, env });
}

describe('configuration', () => {
  it('the file in the repository says exactly the defaults, and every key', () => {
    assert.deepEqual(loadConfig({ directory: ROOT, env: {} }).config, DEFAULT_CONFIG);
    const text = readFileSync(join(ROOT, 'segue.config.yaml'), 'utf8');
    for (const { path } of environmentVariables().values()) assert.match(text, new RegExp(`^ *${path.at(-1)!}:`, 'm'), path.join('.'));
  });

  it('the environment is above the file, the file above the defaults', () => {
    const { config } = load('port: 1\nsessions: { max: 3 }\n', { SEGUE_PORT: '2', SEGUE_AUTH_API_KEYS: 'key-number-one-16, key-number-two-16', SEGUE_TEST_ENABLED: 'true', SEGUE_SESSIONS_IDLE_MS: '5000', SEGUE_ICE_SERVERS: '[{"urls":["stun:x"]}]' });
    assert.deepEqual([config.port, config.sessions.max, config.sessions.idleMs, config.sessions.orphanMs, config.test.enabled], [2, 3, 5_000, 60_000, true]);
    assert.deepEqual(config.auth.apiKeys, ['key-number-one-16', 'key-number-two-16']);
    assert.deepEqual(config.ice.servers, [{ urls: ['stun:x'] }]);
  });

  it('errors name file or variable and key, and say what was expected', () => {
    const cases: readonly (readonly [yaml: string, env: Record<string, string>, source: string, key: string, message: RegExp])[] = [
      ['port: eighty', {}, 'segue.config.yaml', 'port', /port must be integer, got "eighty"/],
      ['sessions: { idel: 5 }', {}, 'segue.config.yaml', 'sessions.idel', /sessions.idel is not known here/],
      ['sessions: 5', {}, 'segue.config.yaml', 'sessions', /must be a section with keys, got 5/],
      ['demo: { enabled: maybe }', {}, 'segue.config.yaml', 'demo.enabled', /must be one of loopback, always, never, got "maybe"/],
      ['port: 1\nport: 2', {}, 'segue.config.yaml', '', /line 2/],
      ['- a', {}, 'segue.config.yaml', '', /expected keys and values/],
      ['__proto__: { x: 1 }', {}, 'segue.config.yaml', '__proto__', /is not known here/],
      ['ice: { minPort: 9, maxPort: 5 }', {}, 'segue.config.yaml', 'ice.minPort', /must not be above ice.maxPort/],
      ['', { SEGUE_PORT: '99999' }, 'SEGUE_PORT', 'port', /must be <= 65535, got 99999/],
      ['', { SEGUE_PORT: '' }, 'SEGUE_PORT', 'port', /must be integer/],
      ['', { SEGUE_TEST_ENABLED: 'yes' }, 'SEGUE_TEST_ENABLED', 'test.enabled', /must be boolean/],
      ['', { SEGUE_CONFIG: '/nowhere.yaml' }, 'SEGUE_CONFIG', '', /no file/],
    ];
    for (const [yaml, env, source, key, message] of cases) {
      assert.throws(() => load(yaml, env), (error: ConfigError) => {
        assert.ok(error instanceof ConfigError, String(error));
        assert.deepEqual([error.source, error.key], [source, key], error.message);
        assert.match(error.message, message);
        return true;
      });
    }
  });

  it('never shows a secret, neither printed nor in an error', () => {
    assert.throws(() => load('', { SEGUE_AUTH_API_KEYS: 'tiny-secret' }), (error: Error) => !error.message.includes('tiny-secret'));
    assert.throws(() => load('', { SEGUE_AUTH_TOKEN_SECRET: 'tiny-secret' }), (error: Error) => !error.message.includes('tiny-secret'));
    const { config } = load('auth: { apiKeys: [hidden-key-0123456789], tokenSecret: hidden-secret-of-at-least-32-characters }\nice: { turnSecret: hidden, servers: [{ urls: [turn:x], username: u, credential: hidden }] }');
    const printed = JSON.stringify(redactConfig(config));
    assert.ok(!printed.includes('hidden'), printed);
    assert.match(printed, /turn:x/);
  });

  it('names variables that look like configuration and are not', () => {
    assert.deepEqual(load('', { SEGUE_PROT: '1', SEGUE_SOAK: '5', OTHER: 'x' }).warnings, ['SEGUE_PROT is not a configuration key']);
  });

  it('keeps media on loopback while HTTP is, unless addresses are named', () => {
    assert.deepEqual(mediaOptions(DEFAULT_CONFIG).ice, { additionalHostAddresses: ['127.0.0.1'], onlyAdditional: true, portRange: [40_000, 49_999], servers: [] });
    assert.equal(mediaOptions({ ...DEFAULT_CONFIG, host: '0.0.0.0' }).ice.onlyAdditional, false);
    assert.deepEqual(mediaOptions({ ...DEFAULT_CONFIG, host: '0.0.0.0', ice: { ...DEFAULT_CONFIG.ice, addresses: ['192.0.2.1'] } }).ice.additionalHostAddresses, ['192.0.2.1']);
  });
});

describe('API keys', () => {
  it('match whole keys only', () => {
    const keys = new ApiKeys(['key-number-one-16', 'key-number-two-16']);
    assert.deepEqual(['key-number-one-16', 'key-number-two-16', 'key-number-one-1', 'key-number-one-166', ''].map((key) => keys.matches(key)), [true, true, false, false, false]);
    assert.ok(new ApiKeys([ApiKeys.generate()]));
    assert.notEqual(ApiKeys.generate(), ApiKeys.generate());
  });
});
