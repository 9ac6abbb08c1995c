/** What a schema validator reports; TypeBox's and fastify's errors both have this form. */
export interface ValidationError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly message?: string | undefined;
  readonly params: unknown;
}

export interface SchemaFault {
  /** Path of the value at fault, with dots; empty for the whole. */
  readonly param: string;
  readonly message: string;
}

/**
 * The one fault worth telling of a list of validation errors: the first that names what is wrong and where.
 *
 * @example
 * schemaFault([{ keyword: 'type', instancePath: '/limits/idleMs', message: 'must be integer', params: {} }]);
 * // { param: 'limits.idleMs', message: 'limits.idleMs must be integer' }
 */
export function schemaFault(errors: readonly ValidationError[]): SchemaFault {
  // `boolean` is the echo of `additionalProperties: false`, which comes with the names.
  const error = errors.find(({ keyword }) => keyword !== 'boolean') ?? errors[0];
  if (!error) return { param: '', message: 'is not valid' };
  const path = error.instancePath.split('/').slice(1).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  const params = (error.params ?? {}) as { readonly requiredProperties?: unknown; readonly additionalProperties?: unknown; readonly allowedValues?: unknown };
  const missing = names(params.requiredProperties);
  const unknown = names(params.additionalProperties);
  if (error.keyword === 'required' && missing) return { param: [...path, missing[0]].join('.'), message: `${[...path, missing[0]].join('.')} is required` };
  if (error.keyword === 'additionalProperties' && unknown) return { param: [...path, unknown[0]].join('.'), message: `${[...path, unknown[0]].join('.')} is not known here` };
  const param = path.join('.');
  const allowed = error.keyword === 'enum' ? names(params.allowedValues) : null;
  const message = allowed ? `must be one of ${allowed.join(', ')}` : (error.message ?? 'is not valid');
  return { param, message: `${param === '' ? 'the value' : param} ${message}` };
}

function names(value: unknown): readonly string[] | null {
  return Array.isArray(value) && value.length > 0 ? value.map(String) : null;
}
