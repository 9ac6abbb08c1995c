/** Requests that raise the epoch where they arrive; the same rule as the server's `fences`, whose module carries the schemas with it. */
export function fences(request: { readonly type: string; readonly seamless?: boolean | undefined }): boolean {
  return request.type === 'interrupt' || request.type === 'cut' || request.type === 'rewind' || (request.type === 'redirect' && request.seamless !== true);
}
