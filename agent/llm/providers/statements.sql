-- name: list_prices
SELECT model, input_per_million, cached_per_million, output_per_million, per_image FROM model_prices;
