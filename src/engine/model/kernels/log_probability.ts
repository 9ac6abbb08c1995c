/** Natural logarithm of the probability that logits give to a token; summed in double precision. @throws {RangeError} for a token beyond them. */
export function logProbability(logits: Float32Array, token: number): number {
  const chosen = logits[token];
  if (chosen === undefined) throw new RangeError(`token ${token} of ${logits.length}`);
  let largest = -Infinity;
  for (const logit of logits) if (logit > largest) largest = logit;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - largest);
  return chosen - largest - Math.log(sum);
}
